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
	// lockMark is the first word of our lock files; the process ID follows. Those of kubectl and kind are empty.
	lockMark = "rehearse"
	// lockTimeout is how long another program may hold the lock; kubectl holds it for milliseconds.
	lockTimeout = 5 * time.Second
	lockRetry   = 10 * time.Millisecond
)

// lockAll takes kubectl's lock (it creates FILE.lock, which must not exist) of every file, and of the target of a symbolic
// link. The order is fixed to prevent deadlocks.
func lockAll(files ...string) (unlock func(), err error) {
	var paths []string
	for _, f := range files {
		target, err := resolve(f)
		if err != nil {
			return nil, err
		}
		paths = append(paths, f+".lock", target+".lock")
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

// lockOne creates the lock file. A kill -9 can leave it behind. Therefore the file is marked and flocked before it is
// linked into place: a marked file that is not flocked belongs to a dead process.
func lockOne(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock kubeconfig: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".rehearse-lock-*")
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: its directory is not writable: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = fmt.Fprintln(tmp, lockMark, os.Getpid())
	if err = errors.Join(err, tmp.Close()); err != nil {
		return nil, fmt.Errorf("lock kubeconfig: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	lock := flock.New(tmp.Name())
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("lock kubeconfig: %w", err)
	}
	for {
		err := os.Link(tmp.Name(), path)
		if err == nil {
			return func() { _ = os.Remove(path); _ = lock.Unlock() }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			_ = lock.Unlock()
			return nil, fmt.Errorf("lock kubeconfig: %w", err)
		}
		if err := awaitRelease(ctx, path); err != nil {
			_ = lock.Unlock()
			return nil, err
		}
	}
}

// awaitRelease waits until another attempt to lock can succeed.
func awaitRelease(ctx context.Context, path string) error {
	content, err := os.ReadFile(path)
	if owner, ours := strings.CutPrefix(string(content), lockMark); err == nil && ours {
		return awaitOurs(ctx, path, strings.TrimSpace(owner))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("kubeconfig is locked: %s exists (its process is unknown); if no program is writing the kubeconfig, remove that file", path)
	}
	time.Sleep(lockRetry) // lock files of other programs are not flocked, so there is no event to wait for
	return nil
}

// awaitOurs waits until the process that created the lock file releases it, and removes the lock file of a dead process.
func awaitOurs(ctx context.Context, path, pid string) error {
	f := flock.New(path, flock.SetFlag(os.O_RDONLY)) // never create it: that would be a lock without a mark
	if _, err := f.TryLockContext(ctx, lockRetry); err != nil {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("kubeconfig is locked: process %s has held %s for %s", pid, path, lockTimeout)
		}
		return fmt.Errorf("lock kubeconfig: %w", err)
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
