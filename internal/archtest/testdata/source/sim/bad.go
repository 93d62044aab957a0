// Package sim is a bad example.
// It has a comment of the right length,
// so that nothing else
// is reported
// than what it shows.
package sim

import "time"

func bad(until time.Time) bool { return time.Now().After(until) }
