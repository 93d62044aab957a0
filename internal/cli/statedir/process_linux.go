package statedir

import (
	"fmt"
	"os"
	"strings"
)

// processStart is the start time of a process in the kernel's own unit, "" if the process does not exist.
func processStart(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the command in parentheses, and may contain spaces and parentheses itself.
	i := strings.LastIndexByte(string(data), ')')
	fields := strings.Fields(string(data[i+1:]))
	const startTime = 22 - 3 // field 22 of proc(5); the slice begins with field 3, the state
	if len(fields) <= startTime || strings.ContainsAny(fields[0], "ZXx") {
		return "" // a zombie: dead, but not yet reaped by its parent
	}
	return fields[startTime]
}

func processExists(pid int) bool { return processStart(pid) != "" }
