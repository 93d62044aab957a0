package docs

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block of a page: its info string and its text.
type block struct{ info, text string }

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func blocksOf(t *testing.T, page string) (blocks []block) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(data), -1) {
		blocks = append(blocks, block{m[1], m[2]})
	}
	return blocks
}

// TestSimtestTutorial is a reader who follows the tutorial: writes the files, runs the
// commands, and expects to see what it shows.
func TestSimtestTutorial(t *testing.T) {
	root, err := filepath.Abs("..")
	must(t, err)
	dir := filepath.Join(t.TempDir(), "keeper")
	must(t, os.Mkdir(dir, 0o755))
	commands := 0
	for _, b := range blocksOf(t, "tutorial-simtest.md") {
		language, file, _ := strings.Cut(b.info, " ")
		switch language {
		case "sh":
			module(t, root, dir, b.text)
		case "go":
			write(t, filepath.Join(dir, file), b.text)
		case "console":
			lines := strings.Split(strings.TrimSpace(b.text), "\n")
			out := run(t, dir, strings.TrimPrefix(lines[0], "$ "))
			commands++
			for _, line := range lines[1:] {
				for _, part := range strings.Split(line, "…") {
					if part = strings.TrimSpace(part); !strings.Contains(out, part) {
						t.Fatalf("%s does not show %q:\n%s", lines[0], part, out)
					}
				}
			}
		}
	}
	if commands != 2 {
		t.Errorf("%d commands were run", commands)
	}
}

// module does what the page's shell commands do, but takes the library from this
// checkout: a workspace of the two modules.
func module(t *testing.T, root, dir, commands string) {
	t.Helper()
	for _, want := range []string{"go mod init example.com/keeper", "go get github.com/rehearse-k8s/rehearse/simtest@latest"} {
		if !strings.Contains(commands, want) {
			t.Fatalf("the page's commands are not those that are known here:\n%s", commands)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/keeper\n\ngo 1.26\n"), 0o600))
	work := fmt.Sprintf("go 1.26.0\n\nuse (\n\t%s\n\t%s\n)\n", root, dir)
	must(t, os.WriteFile(filepath.Join(filepath.Dir(dir), "go.work"), []byte(work), 0o600))
}

func run(t *testing.T, dir, command string) string {
	t.Helper()
	words := strings.Fields(command)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK="+filepath.Join(filepath.Dir(dir), "go.work"))
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed { //nolint:errorlint // a failing test is shown by its output
		t.Fatalf("%s: %v", command, err)
	}
	return string(out)
}

// write writes a file, or puts the functions of a block that is no whole file in the
// places of those of the same name.
func write(t *testing.T, path, text string) {
	t.Helper()
	if !strings.Contains(text, "\npackage ") && !strings.HasPrefix(text, "package ") {
		text = replaced(t, path, text)
	}
	source, err := format.Source([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
	must(t, os.WriteFile(path, source, 0o600))
}

func replaced(t *testing.T, path, functions string) string {
	t.Helper()
	old, err := os.ReadFile(path)
	must(t, err)
	for name, text := range declared(t, "package p\n"+functions) {
		was, ok := declared(t, string(old))[name]
		if !ok {
			t.Fatalf("%s has no function %s", path, name)
		}
		old = []byte(strings.Replace(string(old), was, text, 1))
	}
	return string(old)
}

// declared are the functions of a source file by name.
func declared(t *testing.T, source string) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "", source, 0)
	must(t, err)
	functions := map[string]string{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			functions[fn.Name.Name] = source[set.Position(fn.Pos()).Offset:set.Position(fn.End()).Offset]
		}
	}
	return functions
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
