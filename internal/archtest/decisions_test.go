package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDecisions checks that the files and functions that CONTRIBUTING.md names as the places of decisions exist.
func TestDecisions(t *testing.T) {
	dir := root(t)
	page, err := os.ReadFile(filepath.Join(dir, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| .*\\? \\| `([^`]+)` \\| `([^`]+)` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) != 12 {
		t.Errorf("CONTRIBUTING.md has %d questions, not 12", len(rows))
	}
	for _, row := range rows {
		names, err := functions(filepath.Join(dir, filepath.FromSlash(row[1])))
		if err != nil {
			t.Error(err)
		} else if !names[row[2]] {
			t.Errorf("%s has no function %s", row[1], row[2])
		}
	}
}

// functions returns the names of the functions of a file; a method is Type.Method.
func functions(path string) (map[string]bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			name := d.Name.Name
			if d.Recv != nil {
				name = strings.Join([]string{baseName(d.Recv.List[0].Type), name}, ".")
			}
			names[name] = true
		}
	}
	return names, nil
}
