package kubeconfig

import (
	"context"
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
	// lockMark begins a lock file of ours; the number of its process follows. kubectl's and kind's are empty.
	lockMark = "rehearse"
	// lockTimeout is how long another program may hold the lock; kubectl holds it for milliseconds.
	lockTimeout = 5 * time.Second
	lockRetry   = 10 * time.Millisecond
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
	_, err = fmt.Fprintln(tmp, lockMark, os.Getpid())
	if err = errors.Join(err, tmp.Close()); err != nil {
		return nil, fmt.Errorf("kubeconfig cannot be locked: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	held := flock.New(tmp.Name())
	if _, err := held.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("kubeconfig cannot be locked: %w", err)
	}
	for {
		err := os.Link(tmp.Name(), path)
		if err == nil {
			return func() { _ = os.Remove(path); _ = held.Unlock() }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			_ = held.Unlock()
			return nil, fmt.Errorf("kubeconfig cannot be locked: %w", err)
		}
		if err := awaitRelease(ctx, path); err != nil {
			_ = held.Unlock()
			return nil, err
		}
	}
}

// awaitRelease returns when it is worth trying again.
func awaitRelease(ctx context.Context, path string) error {
	content, err := os.ReadFile(path)
	if owner, ours := strings.CutPrefix(string(content), lockMark); err == nil && ours {
		return awaitOurs(ctx, path, strings.TrimSpace(owner))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("kubeconfig is locked: %s exists (its process is unknown); if no program is writing the kubeconfig, remove that file", path)
	}
	time.Sleep(lockRetry) // another program's lock file is not locked itself: there is nothing to wait for
	return nil
}

// awaitOurs waits until the process that made the lock file releases it, and removes the lock file of one that died.
func awaitOurs(ctx context.Context, path, pid string) error {
	f := flock.New(path, flock.SetFlag(os.O_RDONLY)) // never create it: that would be a lock without a mark
	if _, err := f.TryLockContext(ctx, lockRetry); err != nil {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("kubeconfig is locked: process %s has held %s for %s", pid, path, lockTimeout)
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
