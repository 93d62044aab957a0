package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testPlaces maps the name of each test to the directories that have a test of this name.
type testPlaces map[string][]string

// find returns the directories of the tests that a page names: TestName, PACKAGE.TestName (where PACKAGE is the end of the path of the package), or
// DIRECTORY/SCRIPT.txtar.
func (p testPlaces) find(named string) []string {
	dir, name, qualified := strings.Cut(named, ".")
	if !qualified || strings.HasSuffix(named, ".txtar") {
		return p[named]
	}
	return slices.DeleteFunc(slices.Clone(p[name]), func(place string) bool { return !strings.HasSuffix("/"+place, "/"+dir) })
}

// readTestPlaces reads the tests of a directory and of the directories in it.
func readTestPlaces(t *testing.T, root string) testPlaces {
	t.Helper()
	places := testPlaces{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	files := os.DirFS(root)
	err := fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		dir := path.Dir(file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(d.Name()) > 1 && d.Name()[0] == '.': // no part of the repository
			return fs.SkipDir
		case strings.HasSuffix(file, "_test.go"):
			source, err := fs.ReadFile(files, file)
			for _, m := range function.FindAllSubmatch(source, -1) {
				places[string(m[1])] = append(places[string(m[1])], dir)
			}
			return err
		case strings.HasSuffix(file, ".txtar"):
			name := path.Base(dir) + "/" + d.Name()
			places[name] = append(places[name], dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// TestCompatibilityNamesTests: each test that the page about KWOK names exists and is the only one of this name, and each row that works names one.
func TestCompatibilityNamesTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("reference", "kwok-compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	places := readTestPlaces(t, "..")
	named := regexp.MustCompile("`((?:[\\w/]+\\.)?Test\\w+|\\w+/\\w+\\.txtar)`")
	for _, m := range named.FindAllStringSubmatch(string(page), -1) {
		switch found := places.find(m[1]); {
		case len(found) == 0:
			t.Errorf("there is no test %s", m[1])
		case len(found) > 1:
			t.Errorf("test %s is in several packages: %s; write PACKAGE.%s", m[1], strings.Join(found, ", "), m[1][strings.LastIndex(m[1], ".")+1:])
		}
	}
	statuses := []string{"works", "differs", "unsupported"}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`") {
			continue // no row with a name of KWOK
		}
		status := strings.TrimSpace(cells[2])
		switch {
		case !slices.Contains(statuses, status):
			t.Errorf("the status is none of %v: %s", statuses, line)
		case status == "works" && !named.MatchString(cells[4]):
			t.Errorf("works, but names no test: %s", line)
		case status != "works" && strings.TrimSpace(cells[3]) == "":
			t.Errorf("%s, but gives no reason: %s", status, line)
		}
	}
}

// TestFindTest: a name without a package stands for all tests of this name.
func TestFindTest(t *testing.T) {
	places := testPlaces{"TestReplay": {"internal/sim", "internal/snapshot/transfer"}, "TestAll": {"cluster"}, "script/get.txtar": {"internal/cli/testdata/script"}}
	for named, want := range map[string]string{
		"TestReplay": "internal/sim internal/snapshot/transfer", "sim.TestReplay": "internal/sim", "snapshot/transfer.TestReplay": "internal/snapshot/transfer",
		"im.TestReplay": "", "snapshot.TestReplay": "", "TestAll": "cluster", "TestNone": "", "script/get.txtar": "internal/cli/testdata/script", "script/put.txtar": "",
	} {
		if got := strings.Join(places.find(named), " "); got != want {
			t.Errorf("%s: got %q, want %q", named, got, want)
		}
	}
}
