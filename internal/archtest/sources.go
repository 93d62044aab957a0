package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	maxLines     = 800
	maxMainLines = 30
	minComment   = 5
)

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

var (
	// clock are the functions of package time that read or wait for a clock.
	clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	// seeded are the names of math/rand/v2 that do not touch the global source.
	seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}
	// files are the imports that open files.
	files = []string{"os", "io/fs", "io/ioutil", "path/filepath"}
	// listeners are names of net and net/http that listen on sockets, which only F3 and above may do.
	listeners = []string{"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS", "Server", "Listen", "ListenTCP", "ListenPacket"}
)

// CheckSources checks the files of one package.
func CheckSources(p Package) (violations []string, err error) {
	entry, floor, _ := place(p.ImportPath)
	comment := 0
	set := token.NewFileSet()
	var parsed []*ast.File
	built := slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredFiles)
	for _, name := range slices.Concat(built, p.TestGoFiles, p.XTestGoFiles) {
		path := filepath.Join(p.Dir, name)
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if generated.Match(src) {
			continue
		}
		where := p.ImportPath + "/" + name
		lines := strings.Count(string(src), "\n")
		if lines > maxLines {
			violations = append(violations, fmt.Sprintf("%s has %d lines; at most %d are allowed: split it by subject", where, lines, maxLines))
		}
		if entry == "cmd/rehearse" && name == "main.go" && lines > maxMainLines {
			violations = append(violations, fmt.Sprintf("%s has %d lines; at most %d are allowed: put code where it can be tested", where, lines, maxMainLines))
		}
		if !slices.Contains(built, name) {
			continue
		}
		file, err := parser.ParseFile(set, path, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		comment = max(comment, commentLines(file))
		parsed = append(parsed, file)
		for _, v := range checkFile(set, file, entry, floor) {
			violations = append(violations, p.ImportPath+"/"+v)
		}
	}
	if slices.Contains(public, entry) {
		for _, v := range checkExported(set, parsed) {
			violations = append(violations, p.ImportPath+"/"+v)
		}
	}
	if len(built) > 0 && comment < minComment {
		violations = append(violations, fmt.Sprintf("%s: its package comment has %d lines; it needs %d: say what it is, what it is not, and its floor",
			p.ImportPath, comment, minComment))
	}
	return violations, nil
}

// commentLines counts the lines of a package comment, including blank ones.
func commentLines(f *ast.File) int {
	if f.Doc == nil {
		return 0
	}
	n := 0
	for _, c := range f.Doc.List {
		n += strings.Count(c.Text, "\n") + 1
	}
	return n
}

// checkFile reports the calls, imports and declarations of a file that its floor must not have.
func checkFile(set *token.FileSet, f *ast.File, entry string, floor int) (violations []string) {
	names := importNames(f)
	report := func(pos token.Pos, format string, args ...any) {
		at := set.Position(pos)
		violations = append(violations, fmt.Sprintf("%s:%d: ", filepath.Base(at.Filename), at.Line)+fmt.Sprintf(format, args...))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if floor == 1 {
				report(n.Pos(), "F1 is pure: no goroutines")
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || x.Obj != nil { // Obj: a local variable of that name
				return true
			}
			if reason := checkSelector(names[x.Name], n.Sel.Name, entry, floor); reason != "" {
				report(n.Pos(), "%s.%s: %s", x.Name, n.Sel.Name, reason)
			}
		}
		return true
	})
	if entry == "history" {
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); slices.Contains(files, path) {
				report(i.Pos(), "imports %s: history reads and writes streams; its callers open files", path)
			}
		}
	}
	return append(violations, checkBuiltins(set, f)...)
}

func checkSelector(path, name, entry string, floor int) string {
	switch {
	case path == "time" && (floor <= 1 || entry == "internal/sim") && slices.Contains(clock, name):
		return "the time is an argument here; do not read a clock"
	case path == "math/rand/v2" && floor <= 1 && !slices.Contains(seeded, name):
		return "this draws from the global source of the process; randomness is keyed and comes as an argument"
	case (path == "net/http" || path == "net") && floor <= 2 && slices.Contains(listeners, name):
		return "listeners belong to F3 and above"
	}
	return ""
}
