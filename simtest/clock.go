package simtest

import (
	"math/rand"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
)

// outsideClock gives the virtual time to goroutines outside the bubble, where time.Now returns the
// real time. It is set before each request that they serve.
type outsideClock struct{ nanoseconds atomic.Int64 }

func (c *outsideClock) set() { c.nanoseconds.Store(time.Now().UnixNano()) }

func (c *outsideClock) now() time.Time { return time.Unix(0, c.nanoseconds.Load()) }

// reseed seeds math/rand, so that the numbers drawn in the next step depend only on the step and on
// keys. Goroutines of the server draw from the same source at any time; without reseed, each such
// draw would change all later ones.
func (w *World) reseed(keys ...string) {
	n := fault.Draw(w.plan.Seed, append([]string{"chance", strconv.Itoa(len(w.record.Steps))}, keys...)...)
	//lint:ignore SA1019 the global source is what client-go draws from
	rand.Seed(int64(n >> 1))
}
