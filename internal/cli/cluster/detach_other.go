//go:build !unix

package cluster

import (
	"os/exec"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// ownSession requires sessions and inherited file descriptors, which only Unix has.
func ownSession(*exec.Cmd) error {
	return console.Usagef("--detach is unsupported on this operating system; start the cluster without it and keep the terminal open")
}
