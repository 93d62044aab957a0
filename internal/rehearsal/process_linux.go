package rehearsal

import (
	"os/exec"
	"syscall"
)

// setProcessGroup makes the process the leader of its own process group: signals of the terminal do not reach
// it, and its children are killed with it. The kernel kills it when this process dies.
func setProcessGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
