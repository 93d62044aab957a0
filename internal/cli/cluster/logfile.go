package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

const (
	// logLimit is the size at which a cluster's log is rotated, in bytes.
	logLimit = 10 << 20
	// logParts is how many older parts are kept: rehearse.log.1 is the newest of them.
	logParts = 3
)

// logFile is the log of a cluster: at most limit bytes, and as many in each older part. Rotation copies and truncates the
// current part instead of renaming it, because it is also the stdout and stderr of a detached cluster. Every descriptor
// appends, so after a truncation it writes at the new end.
type logFile struct {
	*os.File
	limit int64
	parts int

	mu sync.Mutex
}

// createLog opens the log of a cluster that starts, and removes the logs of earlier ones.
func createLog(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &logFile{File: f, limit: logLimit, parts: logParts}
	err = f.Truncate(0)
	for i := range l.parts {
		if e := os.Remove(l.part(i + 1)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// part is the name of an older part of the log; 0 is the log itself.
func (l *logFile) part(i int) string {
	if i == 0 {
		return l.Name()
	}
	return fmt.Sprintf("%s.%d", l.Name(), i)
}

// Write implements io.Writer. Bytes that other descriptors wrote count towards the limit.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := l.Stat(); err == nil && info.Size() > 0 && info.Size()+int64(len(p)) > l.limit {
		l.rotate()
	}
	return l.File.Write(p)
}

// rotate copies the log to its newest older part and truncates it. If the copy fails, as on a full disk, the contents are
// dropped: the log must not grow without bound.
func (l *logFile) rotate() {
	for i := l.parts - 1; i > 0; i-- {
		_ = os.Rename(l.part(i), l.part(i+1))
	}
	if err := copyFile(l.part(1), l.Name()); err != nil {
		_ = os.Remove(l.part(1))
	}
	_ = l.Truncate(0)
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
