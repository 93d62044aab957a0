package jobs

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func named(n int) key { return key{name: fmt.Sprint(n), uid: types.UID(fmt.Sprint(n))} }

// TestLanes checks that urgent keys come first, in their order, and that every slowTurns keys one comes from
// the slow lane.
func TestLanes(t *testing.T) {
	urgent := map[key]bool{}
	l := newLanes(func(k key) bool { return urgent[k] })
	l.turns = 8
	for i := range 20 {
		urgent[named(100+i)] = true
		l.Push(named(i))
		l.Push(named(100 + i))
	}
	urgent[named(5)] = true
	l.Touch(named(5))
	l.Touch(named(999)) // not queued
	var got []string
	for l.Len() > 0 {
		got = append(got, l.Pop().name)
	}
	want := "[100 101 102 103 104 105 106 0 107 108 109 110 111 112 113 1 114 115 116 117 118 119 5 2 3 4 6 7 8 9 10 11 12 13 14 15 16 17 18 19]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

// TestLanesLoseNothing checks, for random operations, that each key is returned once for each time it was
// pushed.
func TestLanesLoseNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	urgent, queued := map[key]bool{}, map[key]bool{}
	l := newLanes(func(k key) bool { return urgent[k] })
	for range 200_000 {
		k := named(rng.IntN(40))
		urgent[k] = rng.IntN(3) == 0
		switch {
		case queued[k]:
			l.Touch(k)
		case rng.IntN(2) == 0:
			l.Push(k)
			queued[k] = true
		}
		if l.Len() != len(queued) {
			t.Fatalf("%d keys are queued, Len is %d", len(queued), l.Len())
		}
		if l.Len() > 0 && rng.IntN(2) == 0 {
			out := l.Pop()
			if !queued[out] {
				t.Fatalf("%v was returned and was not queued", out)
			}
			delete(queued, out)
		}
	}
	for l.Len() > 0 {
		delete(queued, l.Pop())
	}
	if len(queued) > 0 {
		t.Errorf("lost: %v", queued)
	}
}
