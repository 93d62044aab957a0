//go:build unix && !linux

package statedir

import (
	"errors"
	"syscall"
)

// processStart is unknown without /proc, so only the lock shows whether the process runs.
func processStart(int) string { return "" }

func processExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
