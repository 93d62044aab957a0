package report

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/rehearse-k8s/rehearse/history"
)

// WriteFile writes a run to a file with mode 0600. It writes a temporary file and renames it, so that concurrent readers
// and a crash of the process never see a part of a run.
func WriteFile(file string, run *history.Run) error {
	return replaceFile(file, func(f *os.File) error { return history.Write(f, run) })
}

// replaceFile writes a temporary file with mode 0600 and renames it.
func replaceFile(file string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(write(f), f.Chmod(0o600), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
