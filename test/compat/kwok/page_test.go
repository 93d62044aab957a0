package kwok

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPageIsComplete: docs/reference/kwok-compatibility.md names each kind, flag and command of KWOK.
func TestPageIsComplete(t *testing.T) {
	stages, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(stages, "..", "..")
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "kwok-compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	flag := regexp.MustCompile(`\.Flags\(\)\.\w+\(&[^,]+, "([a-z-]+)"`)
	for _, file := range []string{"pkg/kwok/cmd/root.go", "pkg/kwokctl/cmd/create/cluster/cluster.go"} {
		found := flag.FindAllStringSubmatch(readFile(t, filepath.Join(root, file)), -1)
		if len(found) < 10 {
			t.Errorf("%s: %d flags found", file, len(found))
		}
		for _, m := range found {
			names = append(names, "`--"+m[1]+"`")
		}
	}
	kind := regexp.MustCompile(`(?m)^\t([A-Z]\w+)Kind = "(\w+)"`)
	for _, dir := range []string{"pkg/apis/v1alpha1", "pkg/apis/config/v1alpha1"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_types.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			for _, m := range kind.FindAllStringSubmatch(readFile(t, file), -1) {
				names = append(names, "`"+m[2]+"`")
			}
		}
	}
	commands, err := filepath.Glob(filepath.Join(root, "pkg", "kwokctl", "cmd", "*", "*.go"))
	if err != nil || len(commands) < 10 {
		t.Fatal(commands, err)
	}
	for _, file := range commands {
		names = append(names, "`"+strings.ReplaceAll(filepath.Base(filepath.Dir(file)), "_", "-"))
	}
	for _, name := range names {
		if !strings.Contains(string(page), name) {
			t.Errorf("the page does not name %s", strings.Trim(name, "`"))
		}
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
