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

// clock and dice are what a pure package must get as arguments.
var (
	clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	// seeded are the names of math/rand/v2 that do not touch the global source.
	seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}
	// listeners open doors; below F3 there are none.
	listeners = []string{"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS", "Server", "Listen", "ListenTCP", "ListenPacket"}
)

// CheckSources judges the files of one package.
func CheckSources(p Package) (violations []string, err error) {
	entry, floor, _ := place(p.ImportPath)
	comment := 0
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
			violations = append(violations, fmt.Sprintf("%s has %d lines; more than %d is more than one subject: split it", where, lines, maxLines))
		}
		if entry == "cmd/rehearse" && name == "main.go" && lines > maxMainLines {
			violations = append(violations, fmt.Sprintf("%s has %d lines, not at most %d: code belongs where it can be tested", where, lines, maxMainLines))
		}
		if !slices.Contains(built, name) {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		comment = max(comment, commentLines(file))
		for _, v := range checkFile(set, file, floor) {
			violations = append(violations, p.ImportPath+"/"+v)
		}
	}
	if len(built) > 0 && comment < minComment {
		violations = append(violations, fmt.Sprintf("%s: its package comment has %d lines, not %d: say what it is, what it is not, and its floor",
			p.ImportPath, comment, minComment))
	}
	return violations, nil
}

// commentLines counts the lines of a package comment, blank ones and all.
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

// checkFile finds the calls that a floor must do without.
func checkFile(set *token.FileSet, f *ast.File, floor int) (violations []string) {
	names := map[string]string{} // the name in this file -> import path
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if path == "math/rand/v2" {
			name = "rand"
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = path
	}
	complain := func(pos token.Pos, format string, args ...any) {
		at := set.Position(pos)
		violations = append(violations, fmt.Sprintf("%s:%d: ", filepath.Base(at.Filename), at.Line)+fmt.Sprintf(format, args...))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if floor == 1 {
				complain(n.Pos(), "F1 is pure: no goroutines")
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || x.Obj != nil { // Obj: a local variable of that name
				return true
			}
			if reason := checkSelector(names[x.Name], n.Sel.Name, floor); reason != "" {
				complain(n.Pos(), "%s.%s: %s", x.Name, n.Sel.Name, reason)
			}
		}
		return true
	})
	return violations
}

func checkSelector(path, name string, floor int) string {
	switch {
	case path == "time" && floor <= 1 && slices.Contains(clock, name):
		return "the time is an argument here, not something to be asked for"
	case path == "math/rand/v2" && floor <= 1 && !slices.Contains(seeded, name):
		return "that draws from the process's global source; randomness is keyed and comes as an argument"
	case (path == "net/http" || path == "net") && floor <= 2 && slices.Contains(listeners, name):
		return "doors are opened on F3 and above"
	}
	return ""
}
