//go:build !unix

package kubeletapi

import (
	"errors"
	"io"
	"os"
	"os/exec"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// setUser rejects users and groups, which this system does not have as numbers.
func setUser(_ *exec.Cmd, s *v1alpha1.SecurityContext) error {
	if s != nil && (s.RunAsUser != nil || s.RunAsGroup != nil) {
		return errors.New("runAsUser and runAsGroup are unsupported on this operating system")
	}
	return nil
}

// newGroup has no effect: the end of the context kills only the command.
func newGroup(*exec.Cmd) {}

func exitCode(s *os.ProcessState) int { return s.ExitCode() }

func runOnTerminal(*exec.Cmd, io.Reader, io.Writer, <-chan remotecommand.TerminalSize) error {
	return errors.New("a terminal (-t) is unsupported on this operating system")
}
