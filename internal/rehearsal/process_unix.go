//go:build unix && !linux

package rehearsal

import (
	"os/exec"
	"syscall"
)

// setProcessGroup has a process lead a group of its own, so that a signal of the terminal does not
// reach it and its children end with it.
func setProcessGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
