package simtest

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// TestReseed: the numbers of a step depend only on the run's seed and the step, whatever other goroutines have drawn, and
// however often the state is set in a step.
func TestReseed(t *testing.T) {
	_, err := theServer() // permits seeding
	must(t, err)
	numbers := func(seed uint64, disturb func(w *World, step int)) (all []int64) {
		w := &World{plan: sim.Plan{Seed: seed}, record: &history.Run{}}
		for step := range 200 {
			disturb(w, step)
			w.reseed()
			if step%9 == 4 { // without draws in between, the source is not seeded
				all = append(all, rand.Int63(), rand.Int63())
			}
			w.record.Steps = append(w.record.Steps, history.Step{})
		}
		return all
	}
	want := numbers(5, func(*World, int) {})
	if sorted := slices.Compact(slices.Sorted(slices.Values(want))); len(sorted) != len(want) {
		t.Errorf("%d of %d numbers are equal", len(want)-len(sorted), len(want))
	}
	if slices.Equal(numbers(6, func(*World, int) {}), want) {
		t.Error("another seed has the same numbers")
	}
	for name, disturb := range map[string]func(w *World, step int){
		"another goroutine draws": func(_ *World, step int) {
			for range step % 4 {
				rand.Int63()
			}
		},
		"the state is set twice": func(w *World, step int) {
			if step%3 == 0 {
				w.reseed()
			}
		},
		"with a key": func(w *World, step int) {
			if step%5 == 0 {
				w.reseed("a")
			}
		},
		"the state is forgotten": func(w *World, step int) {
			if step%7 == 0 {
				w.chance = chance{}
			}
		},
	} {
		if got := numbers(5, disturb); !slices.Equal(got, want) {
			t.Errorf("%s: other numbers", name)
		}
	}
}
