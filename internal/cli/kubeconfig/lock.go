package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// lockMark is in a lock file of ours. kubectl's and kind's are empty.
	lockMark = "rehearse"
	// patience is how long another program may hold the lock; kubectl holds it for milliseconds.
	patience = 5 * time.Second
)

// lockAll takes kubectl's lock (FILE.lock must not exist) of every file, and of the file that a symbolic link
// leads to. The order is fixed, so that two of us cannot wait for each other.
func lockAll(files ...string) (unlock func(), err error) {
	var paths []string
	for _, f := range files {
		real, err := resolve(f)
		if err != nil {
			return nil, err
		}
		paths = append(paths, f+".lock", real+".lock")
	}
	slices.Sort(paths)
	var undo []func()
	unlock = func() {
		for _, u := range undo {
			u()
		}
	}
	for _, p := range slices.Compact(paths) {
		u, err := lockOne(p)
		if err != nil {
			unlock()
			return nil, err
		}
		undo = append(undo, u)
	}
	return unlock, nil
}

// lockOne makes the lock file. To stay safe against kill -9 between making and removing it, the file appears
// already marked as ours and already flocked (it is linked into place): whoever finds a marked file that is not
// flocked knows that its maker is dead.
func lockOne(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("kubeconfig cannot be locked: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".rehearse-lock-*")
	if err != nil {
		return nil, fmt.Errorf("kubeconfig cannot be written: its directory takes no new file: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.WriteString(lockMark)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return nil, fmt.Errorf("kubeconfig cannot be locked: %w", err)
	}
	held := flock.New(tmp.Name())
	if err := held.Lock(); err != nil {
		return nil, fmt.Errorf("kubeconfig cannot be locked: %w", err)
	}
	for deadline := time.Now().Add(patience); ; {
		err := os.Link(tmp.Name(), path)
		if err == nil {
			return func() { _ = os.Remove(path); _ = held.Unlock() }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			_ = held.Unlock()
			return nil, fmt.Errorf("kubeconfig cannot be locked: %w", err)
		}
		if err := awaitRelease(path, deadline); err != nil {
			_ = held.Unlock()
			return nil, err
		}
	}
}

// awaitRelease returns when it is worth trying again.
func awaitRelease(path string, deadline time.Time) error {
	content, err := os.ReadFile(path)
	if err == nil && strings.HasPrefix(string(content), lockMark) {
		return awaitOurs(path)
	}
	if time.Now().After(deadline) {
		return fmt.Errorf("kubeconfig is locked: %s exists; if no program is writing the kubeconfig, remove that file", path)
	}
	time.Sleep(10 * time.Millisecond) // a foreign lock tells nobody when it goes
	return nil
}

// awaitOurs waits until the holder lets go, and clears away the lock file of one that died.
func awaitOurs(path string) error {
	f := flock.New(path, flock.SetFlag(os.O_RDONLY)) // never create it: that would be a lock without a mark
	if err := f.Lock(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("kubeconfig cannot be locked: %w", err)
	}
	defer func() { _ = f.Unlock() }()
	mine, err := f.Stat()
	if err != nil {
		return nil
	}
	now, err := os.Stat(path)
	if err == nil && os.SameFile(mine, now) {
		_ = os.Remove(path)
	}
	return nil
}
