//go:build !unix

package cli

import "os/exec"

// ownSession needs what only Unix has: sessions, and file descriptors that a child inherits.
func ownSession(*exec.Cmd) error {
	return usagef("--detach does not work on this operating system; leave it out and keep the window open")
}
