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

// chance is the state of math/rand in a run. The numbers drawn in a step depend only on the run's seed and on
// the step. Goroutines of the server draw from the same source at any time: if the state were not set at each
// step, each such draw would change all later numbers.
//
// To seed the source takes as long as a thousand draws, so it is seeded once for many steps, of which each has
// its part of the sequence, and again if a goroutine has drawn from it meanwhile.
type chance struct {
	twin rand.Source // in the state that math/rand has, unless a goroutine has drawn from it
	step int         // for which both were set; 0: for none
}

const (
	stepsPerSeed = 32
	drawsPerStep = 8 // more draws in one step are those of the next ones
)

// reseed sets the state of math/rand to that of the next step. With keys, it depends on them too.
func (w *World) reseed(keys ...string) {
	c, step := &w.chance, len(w.record.Steps)
	if len(keys) > 0 {
		seed(w.draw(append([]string{strconv.Itoa(step)}, keys...)))
		return
	}
	if c.step == 0 || step <= c.step || step/stepsPerSeed != c.step/stepsPerSeed || rand.Int63() != c.twin.Int63() {
		n := w.draw([]string{strconv.Itoa(step / stepsPerSeed)})
		if c.twin == nil {
			c.twin = rand.NewSource(n)
		} else {
			c.twin.Seed(n)
		}
		seed(n) // last, so that a goroutine of the server has little time to draw
		c.skip(step % stepsPerSeed * drawsPerStep)
	} else {
		c.skip((step-c.step)*drawsPerStep - 1)
	}
	c.step = step
}

// draw returns a seed that depends on the run's seed and on keys.
func (w *World) draw(keys []string) int64 {
	return int64(fault.Draw(w.plan.Seed, append([]string{"chance"}, keys...)...) >> 1)
}

func seed(n int64) {
	//lint:ignore SA1019 the global source is what client-go draws from
	rand.Seed(n)
}

func (c *chance) skip(draws int) {
	for range draws {
		c.twin.Int63()
	}
	for range draws {
		rand.Int63()
	}
}
