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
		if _, err := os.Lstat(path); err == nil {
			return console.Usagef("%s is a symbolic link to a file that does not exist; remove it, or create that file and pass --overwrite", path)
		}
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
// stays as it is; without overwrite, it stays so afterwards too, and the new file keeps its temporary name. Of a symbolic link, the target is
// replaced. For "-" it writes to stdout.
func replaceFile(path string, overwrite bool, stdout io.Writer, write func(io.Writer) error) (size int64, err error) {
	if path == console.Stdin {
		counted := &counter{w: stdout}
		err := write(counted)
		return counted.n, err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		if of := (*fs.PathError)(nil); errors.As(err, &of) {
			err = of.Err // the name of the temporary file says nothing to the user
		}
		return 0, fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil && !isExists(err) {
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
	if overwrite {
		return info.Size(), os.Rename(f.Name(), path)
	}
	return info.Size(), renameNew(f.Name(), path)
}

// existsError reports a file that another program created after checkFree.
type existsError struct{ path, temporary string }

func (e *existsError) Error() string {
	return fmt.Sprintf("%s was created meanwhile by another program, and stays as it is; what this command wrote is in %s", e.path, e.temporary)
}

// isExists reports whether what a command wrote is kept under a temporary name, which the user must learn.
func isExists(err error) bool {
	var exists *existsError
	return errors.As(err, &exists)
}

// renameNew gives a file the name path, if no file has it.
func renameNew(temporary, path string) error {
	err := os.Link(temporary, path)
	if err == nil {
		return os.Remove(temporary)
	}
	if _, e := os.Lstat(path); e == nil || errors.Is(err, fs.ErrExist) {
		return &existsError{path, temporary}
	}
	return os.Rename(temporary, path) // the file system has no hard links
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
