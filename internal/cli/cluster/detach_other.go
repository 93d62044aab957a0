//go:build !unix

package cluster

import (
	"os/exec"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// ownSession needs what only Unix has: sessions, and file descriptors that a child inherits.
func ownSession(*exec.Cmd) error {
	return console.Usagef("--detach does not work on this operating system; leave it out and keep the window open")
}
