package statedir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestStopped: what is kept of a stopped cluster is readable only by its owner, and a damaged file is an error that says what to do.
func TestStopped(t *testing.T) {
	r := Root(t.TempDir())
	if s, err := r.LoadStopped("a"); s != nil || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if removed, err := r.RemoveStopped("a"); removed || err != nil {
		t.Errorf("removed %t, %v", removed, err)
	}
	want := Stopped{Name: "a", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), DataDir: "/data", Port: 1234, Config: "kind: Cluster\n"}
	must(t, r.SaveStopped(want))
	must(t, r.SaveStopped(Stopped{Name: "b"}))
	got, err := r.LoadStopped("a")
	must(t, err)
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(string(r), "stopped", "a.json"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	if entries, err := r.List(); err != nil || len(entries) != 0 {
		t.Errorf("a stopped cluster does not run: %+v, %v", entries, err)
	}
	names, err := r.StoppedNames()
	if err != nil || strings.Join(names, " ") != "a b" {
		t.Errorf("names %q, %v", names, err)
	}
	must(t, os.WriteFile(r.stoppedPath("b"), []byte("{"), 0o600))
	if _, err := r.LoadStopped("b"); err == nil || !strings.Contains(err.Error(), "remove it with 'rehearse down b'") {
		t.Error(err)
	}
	removed, err := r.RemoveStopped("b")
	if !removed || err != nil {
		t.Errorf("removed %t, %v", removed, err)
	}
}
