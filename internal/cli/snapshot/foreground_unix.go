//go:build unix

package snapshot

import "golang.org/x/sys/unix"

// inForeground reports whether the process may read from its terminal, and change its mode. A terminal that is not that of its session has no
// foreground.
func inForeground(terminal int) bool {
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
