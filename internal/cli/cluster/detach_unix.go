//go:build unix

package cluster

import (
	"os/exec"
	"syscall"
)

// ownSession takes the child out of the terminal's reach: neither Ctrl-C nor a hang-up meets it.
func ownSession(c *exec.Cmd) error {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}
