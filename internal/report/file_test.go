package report_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// TestFileMode checks that only the owner of a recorded run may read it.
func TestFileMode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.jsonl")
	run := &history.Run{Header: history.Header{Format: history.Format}}
	if err := report.WriteFile(file, run); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
