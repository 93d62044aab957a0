package history

import (
	"cmp"
	"slices"
)

// OrderWrites returns the order of steps whose writes are in the order of their revisions: element n is the step that
// becomes step n. revisions has an element for each step, 0 for a step that keeps its place. A write that was sent first
// and executed second follows directly after the other: no client can have observed it before.
func OrderWrites(revisions []int64) []int {
	var writes []int
	order := make([]int, len(revisions))
	at := make([]int, len(revisions)) // for each step, the step after which it is placed
	turn := make([]int, len(revisions))
	for n, revision := range revisions {
		order[n], at[n] = n, n
		if revision > 0 {
			writes = append(writes, n)
		}
	}
	slices.SortStableFunc(writes, func(a, b int) int { return cmp.Compare(revisions[a], revisions[b]) })
	last := -1
	for k, n := range writes {
		last = max(last, n)
		at[n], turn[n] = last, k+1
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(turn[a], turn[b])) })
	return order
}

// Reordered returns a run with the same header and the steps in another order, see OrderWrites, and the new place of
// each step. It computes Truth from the revisions of the steps, and leaves out causes that do not come before their
// effect. It does not change r.
func (r *Run) Reordered(order []int) (reordered *Run, place []int) {
	reordered = &Run{Header: r.Header, Steps: make([]Step, 0, len(order))}
	place = make([]int, len(order))
	for n, old := range order {
		place[old] = n
	}
	truth := int64(0)
	for n, old := range order {
		s := r.Steps[old]
		causes := s.Causes
		s.Causes = nil
		for _, cause := range causes {
			if place[cause] < n {
				s.Causes = append(s.Causes, place[cause])
			}
		}
		truth = max(truth, s.Revision)
		s.Truth = truth
		reordered.Add(s)
	}
	return reordered, place
}
