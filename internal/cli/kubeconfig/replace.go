package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeAll is a seam for the test of a full disk.
var writeAll = func(f *os.File, data []byte) error {
	_, err := f.Write(data)
	return err
}

// replaceFile replaces a file's contents atomically. Of a symbolic link, the target is replaced. Mode and owner are
// preserved; a new file is accessible only by its owner. On an error the old file is unchanged.
func replaceFile(path string, data []byte) (err error) {
	path, err = resolve(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("kubeconfig %s was not changed: %w", path, err)
		}
	}()
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	err = writeAll(tmp, data)
	if err == nil {
		err = likeOld(tmp, path)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// likeOld sets the mode and the owner of the temporary file to those of the file that it will replace.
func likeOld(tmp *os.File, path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tmp.Chmod(0o600)
	}
	if err != nil {
		return err
	}
	if err := keepOwner(tmp, old); err != nil {
		return err
	}
	return tmp.Chmod(old.Mode().Perm())
}

// resolve follows symbolic links to the file that would be written, which need not exist yet.
func resolve(path string) (string, error) {
	for range 40 {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", fmt.Errorf("read kubeconfig: %w", err)
		}
		if info.IsDir() {
			return "", fmt.Errorf("kubeconfig %s is a directory", path)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		path = link
	}
	return "", fmt.Errorf("kubeconfig %s: too many symbolic links", path)
}
