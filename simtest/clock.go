package simtest

import (
	"math/rand"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
)

// outsideClock tells the run's time to goroutines outside its bubble, for whom
// time.Now is the machine's. It is set before each request that they serve.
type outsideClock struct{ nanoseconds atomic.Int64 }

func (c *outsideClock) set() { c.nanoseconds.Store(time.Now().UnixNano()) }

func (c *outsideClock) now() time.Time { return time.Unix(0, c.nanoseconds.Load()) }

// reseed makes what is drawn in the next step depend on the step alone, and on who
// goes on in it. Goroutines of the server draw from the process's source too, whenever they like;
// without this, each such draw would change all that come after it.
func (w *World) reseed(who ...string) {
	n := fault.Draw(w.plan.Seed, append([]string{"chance", strconv.Itoa(len(w.record.Steps))}, who...)...)
	//lint:ignore SA1019 the global source is what client-go draws from
	rand.Seed(int64(n >> 1))
}
