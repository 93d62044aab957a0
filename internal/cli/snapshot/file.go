package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// checkFree rejects the name of an existing file.
func checkFree(path string, overwrite bool) error {
	if path == console.Stdin {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return console.Usagef("%v", err)
	case !info.Mode().IsRegular():
		return console.Usagef("%s is not a regular file", path)
	case !overwrite:
		return console.Usagef("%s exists; to replace it, pass --overwrite", path)
	}
	return nil
}

// replaceFile writes a file that only its owner can read, and returns its size. Until write has succeeded, a file of that name
// stays as it is. For "-" it writes to stdout.
func replaceFile(path string, stdout io.Writer, write func(io.Writer) error) (size int64, err error) {
	if path == console.Stdin {
		counted := &counter{w: stdout}
		err := write(counted)
		return counted.n, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		if of := (*fs.PathError)(nil); errors.As(err, &of) {
			err = of.Err // the name of the temporary file says nothing to the user
		}
		return 0, fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(f.Name(), path)
}

// counter counts the bytes that are written.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
