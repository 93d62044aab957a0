//go:build unix && !linux

package rehearsal

import (
	"os/exec"
	"syscall"
)

// setProcessGroup makes the process the leader of its own process group: signals of the terminal do not reach
// it, and its children are killed with it.
func setProcessGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
