package apiserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// dataDirTimeout limits the wait for the lock of a data directory: longer than the kernel needs to
	// terminate a killed process.
	dataDirTimeout = 2 * time.Second
	lockRetry      = 20 * time.Millisecond

	dataDirLock    = "lock"
	dataDirSockets = "sockets"
	clientSocket   = "client"
	// tempSockets is the prefix of the name of a directory for sockets outside of the data directory.
	tempSockets = "rehearse-etcd-"
)

// lockDataDir takes the lock of a data directory. The lock file names the process that holds it. An etcd that
// the user runs does not know that file; it locks its database.
func lockDataDir(ctx context.Context, dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, dataDirLock)
	lock := openLock(path)
	if err := lockWithin(ctx, lock); err != nil {
		if errors.Is(err, errLocked) {
			err = fmt.Errorf("is in use by another process (%s, lock file %s); stop it first or choose another directory", holder(path), path)
			return nil, fmt.Errorf("data directory %s %w", dir, err)
		}
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	if err := os.WriteFile(path, fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		_ = lock.Unlock()
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	database := filepath.Join(dir, "etcd", "member", "snap", "db")
	other := flock.New(database, flock.SetFlag(os.O_RDONLY))
	switch err := lockWithin(ctx, other); {
	case err == nil:
		_ = other.Unlock()
	case errors.Is(err, errLocked):
		_ = lock.Unlock()
		return nil, fmt.Errorf("data directory %s is in use by another etcd, which locks %s; stop it first or choose another directory", dir, database)
	case !errors.Is(err, fs.ErrNotExist):
		_ = lock.Unlock()
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	return lock, nil
}

func openLock(path string) *flock.Flock {
	return flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
}

var errLocked = errors.New("locked by another process")

// lockWithin waits for a lock for dataDirTimeout; then the error is errLocked. If ctx ends earlier, it is the error of ctx.
func lockWithin(ctx context.Context, lock *flock.Flock) error {
	limited, cancel := context.WithTimeout(ctx, dataDirTimeout)
	defer cancel()
	_, err := lock.TryLockContext(limited, lockRetry)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errLocked
	}
	return err
}

// holder describes the process that a lock file names.
func holder(path string) string {
	data, err := os.ReadFile(path)
	if pid := strings.TrimSpace(string(data)); err == nil && pid != "" {
		return "pid " + pid
	}
	return "pid unknown"
}

// socketDir creates the directory for etcd's sockets, accessible only by its owner. It is in the data
// directory if a socket can be created there: the path of a socket is limited to about 100 bytes, and some
// file systems do not support sockets. Otherwise it is a temporary directory to which a symbolic link in the
// data directory points, so that the next start removes what a killed process left. The caller holds the lock
// of the data directory.
func socketDir(dir string) (string, error) {
	if err := removeSockets(dir); err != nil {
		return "", err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	inside := filepath.Join(dir, dataDirSockets)
	if err := os.Mkdir(inside, 0o700); err != nil {
		return "", err
	}
	if l, err := net.Listen("unix", filepath.Join(inside, clientSocket)); err == nil {
		return inside, l.Close()
	}
	if err := os.Remove(inside); err != nil {
		return "", err
	}
	outside := filepath.Join(os.TempDir(), tempSockets+rand.Text())
	if err := os.Symlink(outside, inside); err != nil {
		return "", err
	}
	return outside, os.Mkdir(outside, 0o700)
}

// removeSockets removes the directory of etcd's sockets, wherever it is.
func removeSockets(dir string) error {
	path := filepath.Join(dir, dataDirSockets)
	if outside, err := os.Readlink(path); err == nil && strings.HasPrefix(filepath.Base(outside), tempSockets) {
		_ = os.Remove(filepath.Join(outside, clientSocket))
		_ = os.Remove(outside) // fails if the directory contains files of others
	}
	return os.RemoveAll(path)
}
