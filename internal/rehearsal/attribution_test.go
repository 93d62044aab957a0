//go:build unix

package rehearsal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// interleaving is a random record of writes by clients, by actors without a record, and of events about them.
type interleaving struct {
	objects *verdict.Objects
	changes []verdict.Change
	record  *history.Run
	author  []int // of each change: the step that wrote it, or -1
}

// interleave returns a random interleaving. Answers arrive in any order within a window, some without a revision.
func interleave(t *testing.T, rnd *rand.Rand) *interleaving {
	t.Helper()
	names := make([]string, 1+rnd.IntN(12))
	for n := range names {
		names[n] = string(rune('a' + rnd.IntN(4)))
	}
	x := &interleaving{record: &history.Run{}, author: make([]int, len(names))}
	x.objects, x.changes = changes(t, names...)
	order := make([]int, 0, len(names))
	for n := range names {
		x.author[n] = -1
		if rnd.IntN(4) > 0 {
			order = append(order, n)
		}
	}
	for n := len(order) - 1; n > 0; n-- { // two answers next to each other may change places
		if names[order[n]] != names[order[n-1]] && rnd.IntN(3) == 0 {
			order[n], order[n-1] = order[n-1], order[n]
		}
	}
	truth := int64(1)
	for _, n := range order {
		c := x.changes[n]
		truth = max(truth, c.Revision)
		o := history.Object{Namespace: "default", Name: names[n]}
		s := history.Step{Kind: history.Request, Actor: "client", Verb: "patch", Object: o, Revision: c.Revision, Code: 200, Truth: truth}
		if len(x.record.Steps) > 0 && rnd.IntN(2) == 0 {
			s.Causes = []int{rnd.IntN(len(x.record.Steps))}
		}
		x.author[n] = x.record.Add(s).N
		if rnd.IntN(2) == 0 {
			x.record.Add(history.Step{Kind: history.Frame, Actor: "client", Object: o, Revision: c.Revision, Truth: truth, Causes: []int{x.author[n]}})
		}
		if rnd.IntN(5) == 0 {
			x.record.Add(history.Step{Kind: history.Request, Actor: "client", Verb: "patch", Object: o, Code: 409, Truth: truth})
		}
	}
	return x
}

// TestAttributeRandom: whichever way answers and changes interleave, each change belongs to the write whose answer has
// its revision, and to no rejected one; the changes of later steps are not earlier.
func TestAttributeRandom(t *testing.T) {
	for seed := range uint64(300) {
		x := interleave(t, rand.New(rand.NewPCG(seed, 3)))
		steps := attributeChanges(x.record, x.changes, x.objects)
		equal(t, fmt.Sprint("seed ", seed), x.author, steps)
		for _, whole := range []bool{false, true} {
			by := changesByStep(x.record, x.changes, slices.Clone(steps), whole)
			last, count := int64(0), 0
			for n := range x.record.Steps {
				for _, c := range by[n] {
					if c.Revision <= last {
						t.Fatalf("seed %d: revision %d at step %d follows revision %d", seed, c.Revision, n, last)
					}
					last, count = c.Revision, count+1
				}
			}
			if want := len(x.changes); whole && len(x.record.Steps) > 0 && count != want {
				t.Fatalf("seed %d: %d of %d changes belong to a step of the whole run", seed, count, want)
			}
		}
	}
}

// TestAddClusterWritesRandom: a record with the writes of the cluster itself has the steps of the clients in their order,
// with the same causes, and each write of the cluster before the first step that can have observed it.
func TestAddClusterWritesRandom(t *testing.T) {
	for seed := range uint64(300) {
		x := interleave(t, rand.New(rand.NewPCG(seed, 4)))
		if len(x.record.Steps) == 0 {
			continue
		}
		unrecorded := func(key string) bool { return key == "/pods/default/d" }
		extended, steps := addClusterWrites(x.record, x.changes, slices.Clone(x.author), x.objects, unrecorded, true)
		var old []int // the new number of each step
		truth := int64(0)
		for n := range extended.Steps {
			s := &extended.Steps[n]
			if s.N != n {
				t.Fatalf("seed %d: step %d has number %d", seed, n, s.N)
			}
			if s.Actor != clusterActor {
				old = append(old, n)
				truth = max(truth, s.Truth)
				continue
			}
			if s.Revision <= truth {
				t.Fatalf("seed %d: the cluster's write of revision %d follows a step that observed revision %d", seed, s.Revision, truth)
			}
		}
		if len(old) != len(x.record.Steps) {
			t.Fatalf("seed %d: %d steps of clients, want %d", seed, len(old), len(x.record.Steps))
		}
		for n, at := range old {
			was, is := &x.record.Steps[n], &extended.Steps[at]
			if was.Verb != is.Verb || was.Revision != is.Revision || was.Code != is.Code || len(is.Causes) != len(was.Causes) {
				t.Fatalf("seed %d: step %d became %+v", seed, n, is)
			}
			for i, cause := range was.Causes {
				if is.Causes[i] != old[cause] {
					t.Fatalf("seed %d: step %d is caused by %d, want %d", seed, at, is.Causes[i], old[cause])
				}
			}
		}
		for i, c := range x.changes {
			switch of := steps[i]; {
			case of < 0 != (x.author[i] < 0 && unrecorded(c.Key)):
				t.Fatalf("seed %d: change %d of %s belongs to step %d", seed, i, c.Key, of)
			case of >= 0 && extended.Steps[of].Revision != c.Revision:
				t.Fatalf("seed %d: revision %d belongs to the step of revision %d", seed, c.Revision, extended.Steps[of].Revision)
			}
		}
	}
}

// TestClusterStep: a write of the cluster itself is a create, an update or a delete, of the object's last revision.
func TestClusterStep(t *testing.T) {
	objects, all := changes(t, "a", "a")
	gone := objects.Take(verdict.Write{Key: "/pods/default/a", Revision: 9})
	for n, want := range []string{"cluster create 2 after 0", "cluster update 3 after 2", "cluster delete 9 after 3"} {
		s := clusterStep(append(all, gone)[n], objects)
		equal(t, "step", want, fmt.Sprintf("%s %s %d after %d", s.Actor, s.Verb, s.Revision, s.Before))
		if !s.IsWrite() || s.Kind != history.Request || s.Code != 200 {
			t.Errorf("%+v", s)
		}
	}
}

// TestUIDOf: the UID of an object that cannot be decoded is unknown.
func TestUIDOf(t *testing.T) {
	_, kv := thing("Pod", "default", "a", "7", "", 1)
	equal(t, "UID", types.UID("7"), uidOf(kv))
	kv.Value = []byte("{")
	equal(t, "not JSON", types.UID(""), uidOf(kv))
}
