package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogIsRotated: the log and its older parts stay within their limits, the newest lines are in the log, and a
// descriptor that others write to, as a detached cluster's stdout, stays in the log.
func TestLogIsRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rehearse.log")
	writeFile(t, path, "an earlier cluster's\n")
	writeFile(t, path+".1", "an earlier cluster's\n")
	l, err := createLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.limit, l.parts = 1000, 2
	other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const lines = 100
	for i := range lines {
		if _, err := fmt.Fprintf(l, "line %03d %s\n", i, strings.Repeat("x", 90)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fmt.Fprintln(other, "panic: the last word"); err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, part := range []string{".2", ".1", ""} {
		data, err := os.ReadFile(path + part)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 || len(data) > 1000+len("panic: the last word\n") {
			t.Errorf("part %q has %d bytes", part, len(data))
		}
		all += string(data)
	}
	if files, _ := filepath.Glob(path + "*"); len(files) != 3 {
		t.Errorf("files: %v", files)
	}
	if !strings.HasSuffix(all, "panic: the last word\n") {
		t.Errorf("what another descriptor wrote is not at the end of the log: %q", all[len(all)-100:])
	}
	first := 0
	if _, err := fmt.Sscanf(all, "line %d", &first); err != nil {
		t.Fatal(err)
	}
	for i := first; i < lines; i++ {
		if !strings.Contains(all, fmt.Sprintf("line %03d ", i)) {
			t.Errorf("line %d is lost although line %d is kept", i, first)
		}
	}
}
