package simtest

import (
	"math/rand"
	"strconv"
	"sync"
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
	step    int     // for which the state was set; 0: for none
	numbers []int64 // the sequence since the source was seeded
	at      int     // how many of them were drawn before the step
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
	at := step % stepsPerSeed * drawsPerStep
	if c.step == 0 || step <= c.step || step/stepsPerSeed != c.step/stepsPerSeed || rand.Int63() != c.numbers[c.at] {
		n := w.draw([]string{strconv.Itoa(step / stepsPerSeed)})
		c.numbers = sequences.of(n)
		seed(n) // last, so that a goroutine of the server has little time to draw
		skip(at)
	} else {
		skip(at - c.at - 1)
	}
	c.step, c.at = step, at
}

// sequences are the first numbers of seeded sources. Runs of a search that begin alike have them in common.
var sequences sequenceCache

type sequenceCache struct {
	mu     sync.Mutex
	bySeed map[int64][]int64
}

// maxSequences is how many sequences are kept: 2 KiB each.
const maxSequences = 4096

func (c *sequenceCache) of(seed int64) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if numbers, ok := c.bySeed[seed]; ok {
		return numbers
	}
	source := rand.NewSource(seed)
	numbers := make([]int64, stepsPerSeed*drawsPerStep)
	for i := range numbers {
		numbers[i] = source.Int63()
	}
	if c.bySeed == nil || len(c.bySeed) >= maxSequences {
		c.bySeed = map[int64][]int64{}
	}
	c.bySeed[seed] = numbers
	return numbers
}

// draw returns a seed that depends on the run's seed and on keys.
func (w *World) draw(keys []string) int64 {
	return int64(fault.Draw(w.plan.Seed, append([]string{"chance"}, keys...)...) >> 1)
}

func seed(n int64) {
	//lint:ignore SA1019 the global source is what client-go draws from
	rand.Seed(n)
}

func skip(draws int) {
	for range draws {
		rand.Int63()
	}
}
