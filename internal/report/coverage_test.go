package report

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
)

// TestCoverageFiles: the coverage of a search is read from the file of its failure, and else from that of its directory.
func TestCoverageFiles(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "0123.jsonl")
	if got, err := ReadCoverage(run); got != nil || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	one := []coverage.Row{{Write: coverage.Write{Actor: "job", Verb: "create", Resource: "pods"}, Caches: map[string][]string{"pods": {"0", "1"}}, NotTried: []fault.Kind{fault.KindConflict},
		Reasons: map[fault.Kind]string{fault.KindConflict: "the search ended before"}}}
	two := append(one, coverage.Row{Write: coverage.Write{Actor: "job", Verb: "delete", Resource: "pods"}, Caches: map[string][]string{}})
	for _, c := range []struct {
		file string
		all  []coverage.Row
	}{{CoverageFileIn(dir), two}, {CoverageFile(run), one}, {CoverageFile(run), []coverage.Row{}}} {
		if err := WriteCoverage(c.file, c.all); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadCoverage(run); err != nil || !reflect.DeepEqual(got, c.all) {
			t.Errorf("%s: got %+v, %v; want %+v", c.file, got, err, c.all)
		}
	}
	if err := os.WriteFile(CoverageFile(run), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCoverage(run); err == nil || !strings.Contains(err.Error(), "0123.coverage.json") {
		t.Errorf("an invalid file: %v", err)
	}
}
