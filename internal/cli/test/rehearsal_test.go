package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// TestLeftDirectories: directories of tests that were killed are removed, and no others: a process in another container is not visible, but holds its lock.
func TestLeftDirectories(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const gone = 999_999_999 // no system has so many processes
	create := func(name string, pid int) string {
		dir := filepath.Join(os.TempDir(), fmt.Sprintf("rehearse-test-%d-%s", pid, name))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	lockIn := func(dir string) *flock.Flock {
		lock := flock.New(filepath.Join(dir, dirLock))
		if err := lock.Lock(); err != nil {
			t.Fatal(err)
		}
		return lock
	}
	if err := lockIn(create("killed", gone)).Close(); err != nil { // the file stays
		t.Fatal(err)
	}
	defer lockIn(create("elsewhere", gone)).Close()
	create("new", gone)
	create("running", os.Getpid())
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(create("without", gone), before, before); err != nil {
		t.Fatal(err)
	}
	dir, lock, err := rehearsalDir()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if !isLocked(dir) {
		t.Error("the new directory is not locked")
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	want := []string{filepath.Base(dir), fmt.Sprintf("rehearse-test-%d-running", os.Getpid()), fmt.Sprintf("rehearse-test-%d-elsewhere", gone), fmt.Sprintf("rehearse-test-%d-new", gone)}
	slices.Sort(left)
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("%v, want %v", left, want)
	}
}
