//go:build unix

package kubeletapi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// setUser sets the user and the group of a command. With only a user, the group is the primary group of that user; with only a group,
// the user stays.
func setUser(c *exec.Cmd, s *v1alpha1.SecurityContext) error {
	c.SysProcAttr = &syscall.SysProcAttr{}
	if s == nil || s.RunAsUser == nil && s.RunAsGroup == nil {
		return nil
	}
	uid, gid := int64(os.Getuid()), int64(os.Getgid())
	if s.RunAsUser != nil && *s.RunAsUser != uid {
		uid = *s.RunAsUser
		if s.RunAsGroup == nil {
			u, err := user.LookupId(strconv.FormatInt(uid, 10))
			if err != nil {
				return fmt.Errorf("runAsUser %d without runAsGroup: %w", uid, err)
			}
			if gid, err = strconv.ParseInt(u.Gid, 10, 64); err != nil {
				return err
			}
		}
	}
	if s.RunAsGroup != nil {
		gid = *s.RunAsGroup
	}
	if uid == int64(os.Getuid()) && gid == int64(os.Getgid()) {
		return nil
	}
	c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return nil
}

// newGroup starts a command in a process group of its own, and kills the group when the context of the command ends.
func newGroup(c *exec.Cmd) {
	c.SysProcAttr.Setpgid = !c.SysProcAttr.Setsid // a session has a new group already
	c.Cancel = func() error { return killGroup(c.Process) }
}

func killGroup(p *os.Process) error {
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	} else {
		return err
	}
}

// exitCode returns the code that a shell reports.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

// endOfInput is the character that ends the input of a terminal.
const endOfInput = 4

// runOnTerminal runs a command with a new terminal, which is its controlling terminal.
func runOnTerminal(c *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, other, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	// Setsize reads the file descriptor without the protection that reads and writes of a File have against Close.
	var mu sync.Mutex
	closed := false
	closeTerminal := func() {
		mu.Lock()
		defer mu.Unlock()
		_ = terminal.Close()
		closed = true
	}
	defer closeTerminal()
	if credential := c.SysProcAttr.Credential; credential != nil {
		if err := other.Chown(int(credential.Uid), int(credential.Gid)); err != nil {
			_ = other.Close()
			return fmt.Errorf("open a terminal: %w", err)
		}
	}
	c.Stdin, c.Stdout, c.Stderr = other, other, other
	c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	newGroup(c)
	err = c.Start()
	_ = other.Close()
	if err != nil {
		return err
	}
	go func() { // ends with the connection
		for size := range resize {
			mu.Lock()
			if !closed {
				_ = pty.Setsize(terminal, &pty.Winsize{Cols: size.Width, Rows: size.Height})
			}
			mu.Unlock()
		}
	}()
	if in != nil {
		go func() { // ends with the connection
			_, _ = io.Copy(terminal, in)
			_, _ = terminal.Write([]byte{endOfInput})
		}()
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if out == nil {
			out = io.Discard
		}
		_, _ = io.Copy(out, terminal) // ends with an error when no process has the terminal open
	}()
	err = c.Wait()
	select {
	case <-copied:
	case <-time.After(outputTimeout): // a process in the background keeps the terminal open
		closeTerminal()
		<-copied
	}
	return err
}
