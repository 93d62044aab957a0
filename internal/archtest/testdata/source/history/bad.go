// Package history is a bad example.
// It has a comment of the right length,
// so that nothing else
// is reported
// than what it shows.
package history

import files "os"

func bad(name string) ([]byte, error) { return files.ReadFile(name) }
