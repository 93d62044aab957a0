//go:build unix

package cluster

import (
	"os/exec"
	"syscall"
)

// ownSession starts the child in a session of its own: it receives neither Ctrl-C nor SIGHUP from the terminal.
func ownSession(c *exec.Cmd) error {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}
