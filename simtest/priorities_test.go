package simtest

import (
	"fmt"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
)

// TestPriorities checks the choice between three chains that always have an action: the chain with the highest priority is next, a
// change point moves it behind all others, and removing a change point leaves the others in place.
func TestPriorities(t *testing.T) {
	chains := []chain{"a", "b", "c"}
	play := func(s history.Schedule) (order []chain) {
		p := newPriorities(s)
		for range 40 {
			for {
				best := &ready{chain: chains[0], place: place{age: 40}}
				for n, c := range chains[1:] {
					if a := (&ready{chain: c, place: place{age: 40, number: n + 1}}); p.precedes(a, best, 40) {
						best = a
					}
				}
				if !p.changes(best.chain) {
					order = append(order, best.chain)
					break
				}
			}
		}
		return order
	}
	changes := func(order []chain) (at []int) {
		for n := 1; n < len(order); n++ {
			if order[n] != order[n-1] {
				at = append(at, n)
			}
		}
		return at
	}
	first, moved := map[chain]int{}, 0
	for seed := range uint64(100) {
		one := play(history.Schedule{Seed: seed, Depth: 1, Choices: 30})
		first[one[0]]++
		if at := changes(one); len(at) > 0 {
			t.Fatalf("seed %d: another chain at %v without a change point", seed, at)
		}
		for depth := 2; depth <= 4; depth++ {
			fewer, s := newPriorities(history.Schedule{Seed: seed, Depth: depth - 1, Choices: 30}), history.Schedule{Seed: seed, Depth: depth, Choices: 30}
			points := newPriorities(s).points
			if len(points) != depth-1 {
				t.Fatalf("seed %d, depth %d: change points %v", seed, depth, points)
			}
			for at, n := range fewer.points {
				if points[at] != n {
					t.Errorf("seed %d: depth %d has the change points %v, depth %d %v", seed, depth-1, fewer.points, depth, points)
				}
			}
			at := changes(play(s))
			if len(at) > depth-1 {
				t.Errorf("seed %d, depth %d: another chain at %v", seed, depth, at)
			}
			moved += len(at)
		}
	}
	if moved < 400 { // of at most 600; two change points may be at one choice
		t.Errorf("change points moved %d chains", moved)
	}
	for _, c := range chains {
		if first[c] < 15 {
			t.Errorf("%s is first with %d of 100 seeds", c, first[c])
		}
	}
}

// TestPrioritiesUrgent checks that an action that has waited too long precedes all others, and that the requests of another
// user that contend with a write precede even those.
func TestPrioritiesUrgent(t *testing.T) {
	for seed := range uint64(20) {
		p := newPriorities(history.Schedule{Seed: seed, Depth: 1, Choices: 30})
		low, high := chain("x"), chain("y")
		if p.rank(low) > p.rank(high) {
			low, high = high, low
		}
		at := func(c chain, age int) *ready { return &ready{chain: c, place: place{age: age}} }
		const step = 1000
		for _, c := range []struct {
			a, b *ready
			want bool
		}{
			{at(high, step), at(low, step-maxWait), true},
			{at(high, step), at(low, step-maxWait-1), false},
			{at(high, step-maxWait-1), at(low, step-maxWait-2), false},
			{at(high, step-maxWait-1), at(low, contended), false},
			{at(high, contends), at(low, contended), true},
		} {
			if got := p.precedes(c.a, c.b, step); got != c.want {
				t.Errorf("seed %d: %s before %s: %v", seed, fmt.Sprint(c.a.chain, c.a.age), fmt.Sprint(c.b.chain, c.b.age), got)
			}
		}
	}
}
