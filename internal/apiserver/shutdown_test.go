package apiserver

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestSlowStartKeepsLock: if a start is interrupted while etcd opens a large database, the directory stays locked until etcd has closed it. Otherwise the next
// start would find the database in use.
func TestSlowStartKeepsLock(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDataDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	e := &EmbeddedEtcd{dir: dir, lock: lock, failed: make(chan error, 1), client: "unix://" + filepath.Join(dir, "client"), opened: make(chan struct{})}
	e.shutdown()
	other := openLock(filepath.Join(dir, dataDirLock))
	if err := lockWithin(t.Context(), other); !errors.Is(err, errLocked) {
		t.Errorf("the directory is not locked while etcd opens its files: %v", err)
	}
	close(e.opened) // it has opened them
	if err := lockWithin(t.Context(), other); err != nil {
		t.Errorf("the directory is still locked: %v", err)
	}
}
