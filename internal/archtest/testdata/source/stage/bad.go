// Package stage is a bad example.
package stage

import (
	"math/rand/v2"
	clock "time"
)

func bad() (clock.Duration, int) {
	go func() {}()
	start := clock.Now()
	r := rand.New(rand.NewPCG(1, 2))
	return clock.Since(start), rand.IntN(3) + r.IntN(3)
}
