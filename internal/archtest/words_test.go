package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wordsPending are directories and files that still have retired words. One that is clean leaves the list.
var wordsPending = []string{}

// wordsExempt are files that must name retired words.
var wordsExempt = []string{"internal/archtest/words.go", "internal/archtest/words_test.go", "docs/reference/glossary.md", "docs/design/layout.md", "CHANGELOG.md"}

// wordsOf checks the files of a directory tree, by their slash-separated path below it.
func wordsOf(t *testing.T, dir string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(rel)
		if slices.Contains(wordsExempt, rel) || ext != ".go" && ext != ".md" {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var violations []string
		if ext == ".md" {
			violations = CheckMarkdownWords(rel, src)
		} else if violations, err = CheckGoWords(rel, src); err != nil {
			return err
		}
		if len(violations) > 0 {
			found[rel] = violations
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestWords fails for retired words outside of the pending directories. With -v it also logs those that are pending.
func TestWords(t *testing.T) {
	count := 0
	for file, violations := range wordsOf(t, root(t)) {
		pending := slices.ContainsFunc(wordsPending, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") })
		for _, v := range violations {
			if pending {
				count++
				if testing.Verbose() {
					t.Log(v)
				}
				continue
			}
			t.Error(v)
		}
	}
	t.Logf("%d retired words in pending directories", count)
}

// TestBadWords shows what is found in a bad file and in a bad page, and what is not.
func TestBadWords(t *testing.T) {
	src := []byte(`// Package bad is the bad example: whoever reads it is told too much.
package bad

// LetGo refuses to be good.
func LetGo(suitors int) error { return errors.New("the kubelet is told anew") }

// unexported doc comments may promise anything.
type pod struct {
	Beside string ` + "`json:\"beside the point\"`" + `
}

const kind, address = "refused", "dial: connection refused"
`)
	got, err := CheckGoWords("bad.go", src)
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, CheckMarkdownWords("bad.md", []byte("# A story\n\n```\ntell\n```\nRun `promises` [side\tby side](beside.md).\n"))...)
	want := []string{
		`bad.go:5: identifier LetGo has the retired word "let go": write remove the finalizer, release`,
		`bad.go:5: identifier suitors has the retired word "suitors": write matching objects`,
		`bad.go:1: doc comment has the retired word "whoever": write the caller (name the actor)`,
		`bad.go:1: doc comment has the retired word "told": write delivered, observed, reported`,
		`bad.go:4: doc comment has the retired word "refuses": write rejects, denies, forbids`,
		`bad.go:5: string has the retired word "told": write delivered, observed, reported`,
		`bad.go:5: string has the retired word "anew": write again, restart`,
		`bad.go:9: identifier Beside has the retired word "beside": write alongside, additional`,
		`bad.md:1: retired word "story": write scenario, test`,
		`bad.md:6: retired word "side by side": write concurrently, in parallel`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCamelWords(t *testing.T) {
	for name, want := range map[string]string{"letGo": "let Go", "RESTConfig": "REST Config", "TestUID_told": "Test UID told", "x": "x", "podUID": "pod UID"} {
		if got := strings.Join(camelWords(name), " "); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
