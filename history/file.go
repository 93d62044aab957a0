package history

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes a run into a file that only its owner may read (mode 0600), whole or not at all: a
// reader may come at any time, and so may the end of the process.
func WriteFile(file string, run *Run) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(Write(f, run), f.Chmod(0o600), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
