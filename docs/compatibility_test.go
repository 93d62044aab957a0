package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCompatibilityNamesTests: each test that the page about KWOK names exists, and each row that works names one.
func TestCompatibilityNamesTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("reference", "kwok-compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, "_test.go"):
			source, err := os.ReadFile(path)
			for _, m := range function.FindAllSubmatch(source, -1) {
				exist[string(m[1])] = true
			}
			return err
		case strings.HasSuffix(path, ".txtar"):
			exist[filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+|\\w+/\\w+\\.txtar)`")
	for _, m := range named.FindAllStringSubmatch(string(page), -1) {
		if !exist[m[1]] {
			t.Errorf("there is no test %s", m[1])
		}
	}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 4 && strings.TrimSpace(cells[2]) == "works" && !named.MatchString(cells[4]) {
			t.Errorf("works, but names no test: %s", line)
		}
	}
}
