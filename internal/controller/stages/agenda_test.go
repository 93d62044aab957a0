package stages

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAgenda compares the heap with a map. An earlier due time of a key must have no effect after the key is
// set again (in KWOK, a key that is twice in the heap stalls all others).
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a := newAgenda[string]()
		model := map[string]time.Time{}
		key := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		at := rapid.Custom(func(r *rapid.T) time.Time {
			return start.Add(time.Duration(rapid.IntRange(0, 5).Draw(r, "s")) * time.Second)
		})
		r.Repeat(map[string]func(*rapid.T){
			"set": func(r *rapid.T) {
				k, due := key.Draw(r, "key"), at.Draw(r, "due")
				a.set(k, due)
				model[k] = due
			},
			"remove": func(r *rapid.T) {
				k := key.Draw(r, "key")
				a.remove(k)
				delete(model, k)
			},
			"pop": func(r *rapid.T) {
				now := at.Draw(r, "now")
				k, due, ok := a.pop(now)
				var first time.Time
				for _, d := range model {
					if first.IsZero() || d.Before(first) {
						first = d
					}
				}
				if !due.Equal(first) {
					r.Fatalf("first is due at %s, want %s", due, first)
				}
				if want := !first.IsZero() && !first.After(now); ok != want {
					r.Fatalf("pop says %v, want %v", ok, want)
				}
				if ok {
					if !model[k].Equal(due) {
						r.Fatalf("%s popped at %s, was set to %s", k, due, model[k])
					}
					delete(model, k)
				}
			},
			"": func(r *rapid.T) {
				if a.len() != len(model) || len(a.items.of) != len(model) {
					r.Fatalf("has %d keys (%d positions), want %d", a.len(), len(a.items.of), len(model))
				}
			},
		})
	})
}

func TestAgendaOrderAmongEquals(t *testing.T) {
	a := newAgenda[int]()
	for i := range 100 {
		a.set(i, start)
	}
	for i := range 100 {
		if k, _, ok := a.pop(start); !ok || k != i {
			t.Fatalf("got %d, want %d", k, i)
		}
	}
}
