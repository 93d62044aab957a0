//go:build unix

package kubeconfig

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner matters under sudo: without it, root would become the owner of the file.
func keepOwner(tmp *os.File, old fs.FileInfo) error {
	st, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	mine, err := tmp.Stat()
	if err != nil {
		return err
	}
	if m, ok := mine.Sys().(*syscall.Stat_t); ok && m.Uid == st.Uid && m.Gid == st.Gid {
		return nil
	}
	if err := tmp.Chown(int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("its owner could not be kept: %w", err)
	}
	return nil
}
