package report

import (
	"path/filepath"
	"strings"
)

// Kept failures lie in files HASH.jsonl, and the nearest passing run, where one is
// known, beside its failure in HASH.nearest.jsonl.
const (
	keptSuffix    = ".jsonl"
	nearestSuffix = ".nearest" + keptSuffix
)

// NearestFile is where the nearest passing run lies, beside the file of a failure.
func NearestFile(failure string) string {
	return strings.TrimSuffix(failure, keptSuffix) + nearestSuffix
}

// IsNearestFile tells whether a file is named as one of a nearest run.
func IsNearestFile(file string) bool { return strings.HasSuffix(filepath.Base(file), nearestSuffix) }
