package report

import (
	"path/filepath"
	"strings"
)

// A failure is stored in the file HASH.jsonl, and the nearest passing run, if known, in HASH.nearest.jsonl.
const (
	keptSuffix    = ".jsonl"
	nearestSuffix = ".nearest" + keptSuffix
)

// NearestFile returns the file of the nearest passing run of a failure.
func NearestFile(failure string) string {
	return strings.TrimSuffix(failure, keptSuffix) + nearestSuffix
}

// IsNearestFile reports whether a file name is that of a nearest passing run.
func IsNearestFile(file string) bool { return strings.HasSuffix(filepath.Base(file), nearestSuffix) }
