//go:build !unix

package kubeconfig

import (
	"io/fs"
	"os"
)

// keepOwner does nothing where a file has no numeric owner.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
