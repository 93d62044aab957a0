// Package limit holds the bounds that expressions and templates of stages share, and the error of what exceeds
// one.
//
// Programs come from users and read objects of other users, so what a value may grow to is bounded. The bounds
// count values and bytes, never time, so that the same program fails on every machine or on none.
//
// It is not a budget: expr and render each count what one evaluation has spent.
//
// Floor: F1, pure. Imports the standard library only.
package limit

import (
	"fmt"
	"math"
	"strconv"
)

const (
	// Depth is how deep values may be nested. A dict that contains itself is deeper than that.
	Depth = 200
	// Items is how many items a list made from numbers may have.
	Items = 100_000
)

// Exceeded is the error of an expression or a template that exceeds a limit.
type Exceeded struct {
	// Reason says which.
	Reason string
}

// Error implements error.
func (o *Exceeded) Error() string { return o.Reason }

// Product returns a*b, at most math.MaxInt32.
func Product(a, b int) int {
	if a > 0 && b > math.MaxInt32/a {
		return math.MaxInt32
	}
	return a * b
}

// Quote quotes a text for a message and cuts it where it is long.
func Quote(text string) string {
	const most = 64
	if len(text) > most {
		return strconv.Quote(text[:most]) + fmt.Sprintf("… (%d bytes)", len(text))
	}
	return strconv.Quote(text)
}
