package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	recordFile     = "state.json"
	lockFile       = "lock"
	logFile        = "rehearse.log"
	kubeconfigFile = "kubeconfig"
	configFile     = "cluster.yaml"

	// killGrace is how long a killed process may keep its locks until the kernel has released them.
	killGrace = 300 * time.Millisecond
	// lookTimeout is longer than Look holds the lock.
	lookTimeout = 2 * time.Second
	retry       = 20 * time.Millisecond
)

// Root is the directory that contains the directories of the clusters.
type Root string

// DefaultRoot follows the XDG rules: $XDG_STATE_HOME/rehearse, else ~/.local/state/rehearse.
func DefaultRoot(getenv func(string) string) (Root, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return Root(filepath.Join(dir, "rehearse")), nil
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("find the state directory: neither XDG_STATE_HOME nor HOME is set")
	}
	return Root(filepath.Join(home, ".local", "state", "rehearse")), nil
}

// LiveError reports that another process holds the name. Record is nil while that process is starting.
type LiveError struct {
	Name   string
	Record *Record
	// Lock is the file that the other process has locked. PID is that process's ID, 0 if unknown.
	Lock string
	PID  int
}

// Error names the process that holds the name, and what to do.
func (e *LiveError) Error() string {
	if e.Record == nil {
		return fmt.Sprintf("cluster %q is being started by another process (%s, lock file %s); choose another --name", e.Name, e.holder(), e.Lock)
	}
	return fmt.Sprintf("cluster %q is already running (%s, lock file %s); choose another --name, or stop it: rehearse down %s",
		e.Name, e.holder(), e.Lock, e.Name)
}

func (e *LiveError) holder() string {
	switch {
	case e.Record != nil && e.Record.PID != 0:
		return fmt.Sprintf("pid %d", e.Record.PID)
	case e.PID != 0:
		return fmt.Sprintf("pid %d", e.PID)
	}
	return "pid unknown"
}

// liveError describes the holder of a name. It reads the lock file again: the holder writes its process ID to it right after
// it has locked it.
func (r Root) liveError(name string, rec *Record) *LiveError {
	e := &LiveError{Name: name, Record: rec, Lock: filepath.Join(r.Path(name), lockFile)}
	if data, err := os.ReadFile(e.Lock); err == nil {
		e.PID, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	return e
}

// Dir is the directory of one cluster, with its lock held.
type Dir struct {
	Path string
	lock *flock.Flock
}

// Path is the directory of a name, whether it exists or not.
func (r Root) Path(name string) string { return filepath.Join(string(r), "clusters", name) }

// LogPath is the log file of a name.
func (r Root) LogPath(name string) string { return filepath.Join(r.Path(name), logFile) }

// KubeconfigPath is the kubeconfig in the directory of a name. It contains only that cluster.
func (r Root) KubeconfigPath(name string) string { return filepath.Join(r.Path(name), kubeconfigFile) }

// ConfigPath is the file with the effective configuration of a name.
func (r Root) ConfigPath(name string) string { return filepath.Join(r.Path(name), configFile) }

// Prepare creates the directory, accessible only by its owner.
func (r Root) Prepare(name string) error {
	if err := os.MkdirAll(r.Path(name), 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	if err := os.Chmod(r.Path(name), 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}

// Claim takes a name for the calling process. It returns a *LiveError if a running process has it, and the record of a
// dead process, so that the caller can remove its kubeconfig entries.
func (r Root) Claim(name string) (d *Dir, stale *Record, err error) {
	begin := time.Now()
	for deadline := begin.Add(lookTimeout); ; {
		d, err := r.tryClaim(name)
		if err != nil && (!vanished(err) || time.Now().After(deadline)) {
			return nil, nil, err
		}
		if d != nil {
			stale, err := readRecord(d.Path)
			if err != nil {
				stale = &Record{Name: name} // corrupt: the rest can still be removed
			}
			return d, stale, nil
		}
		rec, _ := readRecord(r.Path(name))
		if rec != nil && rec.Alive() && time.Since(begin) > killGrace || time.Now().After(deadline) {
			return nil, nil, r.liveError(name, rec)
		}
		time.Sleep(retry) // another process looks at it, or is about to release it
	}
}

// vanished reports whether another process removed the directory at the same time. That includes "exists" from a mkdir
// if the directory was removed and created in between.
func vanished(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) }

// tryClaim returns nil if the lock is taken, or if the lock file was removed at the same time.
func (r Root) tryClaim(name string) (*Dir, error) {
	if err := r.Prepare(name); err != nil {
		return nil, err
	}
	path := filepath.Join(r.Path(name), lockFile)
	lock := flock.New(path, flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if !got {
		return nil, nil
	}
	// The previous holder may have removed the file that this process has just locked.
	held, err1 := lock.Stat()
	there, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(held, there) {
		_ = lock.Unlock()
		return nil, nil
	}
	if err := os.WriteFile(path, fmt.Appendln(nil, os.Getpid()), 0o600); err != nil { // for processes that find it locked
		_ = lock.Unlock()
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return &Dir{Path: r.Path(name), lock: lock}, nil
}

// Save writes the record.
func (d *Dir) Save(r Record) error { return writeRecord(d.Path, r) }

// WriteKubeconfig writes the cluster's own kubeconfig.
func (d *Dir) WriteKubeconfig(data []byte) error {
	path := filepath.Join(d.Path, kubeconfigFile)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

// WriteConfig writes the effective configuration of the cluster.
func (d *Dir) WriteConfig(data []byte) error {
	return os.WriteFile(filepath.Join(d.Path, configFile), data, 0o600)
}

// Wipe removes everything except the lock and the log with its older parts.
func (d *Dir) Wipe() error {
	return d.removeAllBut(func(name string) bool { return name == lockFile || isLog(name) })
}

// isLog reports whether a file is the log or an older part of it (rehearse.log.1).
func isLog(name string) bool { return strings.HasPrefix(name, logFile) }

func (d *Dir) removeAllBut(keep func(name string) bool) error {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !keep(e.Name()) {
			errs = append(errs, os.RemoveAll(filepath.Join(d.Path, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Release releases the name and removes the directory, except for the log if keepLog is set.
func (d *Dir) Release(keepLog bool) error {
	err := d.removeAllBut(func(name string) bool { return name == lockFile || keepLog && isLog(name) })
	// The lock file is removed last, while it is locked: see tryClaim.
	err = errors.Join(err, remove(filepath.Join(d.Path, lockFile)))
	_ = os.Remove(d.Path) // fails if the log is kept, or if another process has just claimed the name
	return errors.Join(err, d.lock.Unlock())
}

// Abandon releases the name and leaves all files, as those of a process that was killed.
func (d *Dir) Abandon() error { return d.lock.Unlock() }

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Entry is the state of a name as another process sees it.
type Entry struct {
	Name   string
	Live   bool
	Record *Record // nil if there is no record
}

// Look reads the state of one name without changing it; ok is false if nothing exists under the name.
func (r Root) Look(name string) (e Entry, ok bool, err error) {
	rec, err := readRecord(r.Path(name))
	if err != nil {
		rec = &Record{Name: name}
	}
	lock := flock.New(filepath.Join(r.Path(name), lockFile), flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Entry{Name: name, Record: rec}, rec != nil, nil
	case err != nil:
		return Entry{}, false, fmt.Errorf("state directory: %w", err)
	case free:
		_ = lock.Unlock()
	}
	return Entry{Name: name, Live: !free, Record: rec}, rec != nil || !free, nil
}

// List returns the state of every name, sorted.
func (r Root) List() ([]Entry, error) {
	dirs, err := os.ReadDir(filepath.Join(string(r), "clusters"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	var out []Entry
	for _, d := range dirs {
		e, ok, err := r.Look(d.Name())
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// CheckFree returns the *LiveError that Claim would return, without taking the name.
func (r Root) CheckFree(name string) error {
	if r.AwaitEnd(name, killGrace) {
		return nil
	}
	e, _, err := r.Look(name)
	if err == nil && e.Live {
		err = r.liveError(name, e.Record)
	}
	return err
}

// AwaitEnd waits until no process holds the name; it returns false on timeout.
func (r Root) AwaitEnd(name string, timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); ; time.Sleep(retry) {
		e, _, err := r.Look(name)
		if err == nil && !e.Live {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
