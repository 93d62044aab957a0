package proxy

import (
	"cmp"
	"slices"

	"github.com/rehearse-k8s/rehearse/history"
)

// soFar returns the record of the steps so far. It returns the same record until another step is
// added. The lock is held.
func (r *Run) soFar() *history.Run {
	if r.copy == nil {
		r.copy = r.record()
	}
	return r.copy
}

// record builds a record from the steps. The lock is held.
func (r *Run) record() *history.Run {
	record := &history.Run{Header: r.header, Steps: make([]history.Step, 0, len(r.steps))}
	order := r.order()
	place := make([]int, len(order))
	for n, old := range order {
		place[old] = n
	}
	truth := int64(0)
	for n, old := range order {
		s := r.steps[old]
		causes := s.Causes
		// The event of a write may arrive before the answer, and so before the revision of the
		// write is known.
		if write, ok := r.wrote[s.Revision]; ok && s.Kind == history.Frame {
			causes = append(slices.Clone(causes), write)
		}
		s.Causes = nil
		for _, cause := range causes {
			if place[cause] < n {
				s.Causes = append(s.Causes, place[cause])
			}
		}
		truth = max(truth, s.Revision)
		s.Truth = truth
		record.Add(s)
	}
	return record
}

// order returns the steps in the order of the record: in the order of their start, but writes in
// the order of their revisions. A write that was sent first and executed second follows directly
// after the other: no client can have observed it before. A write whose revision is older than one that was known
// when it was sent does not move others: it changed nothing, or its resource has an etcd of its own. The lock is held.
func (r *Run) order() []int {
	var writes []int
	for n := range r.steps {
		if r.steps[n].Wrote() && r.steps[n].Revision > r.began[n].newest {
			writes = append(writes, n)
		}
	}
	slices.SortStableFunc(writes, func(a, b int) int { return cmp.Compare(r.steps[a].Revision, r.steps[b].Revision) })
	at := make([]int, len(r.steps)) // for each step, the step after which it is placed, in the order of their start
	turn := make([]int, len(r.steps))
	for n := range at {
		at[n] = n
	}
	last := -1
	for k, n := range writes {
		last = max(last, n)
		at[n], turn[n] = last, k+1
	}
	order := make([]int, len(r.steps))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(turn[a], turn[b])) })
	return order
}

// seen records a revision of an object. The lock is held.
func (r *Run) seen(o history.Object, revision int64) {
	key := o.String()
	if k := r.known[key]; revision > k.last {
		r.known[key] = revisions{last: revision, before: k.last}
	}
}

// before returns the revision that an object had before step n, a write whose answer contains the
// revision now: the newest revision in earlier answers and events. The event of the write may already
// have arrived. Step -1 is not recorded. A write has changed nothing if its revision equals that of an earlier write, or is not
// newer than what was known when it was sent: another user, whom the proxy does not observe, wrote it. The
// lock is held.
func (r *Run) before(n int, o history.Object, now int64) int64 {
	r.seen(o, now)
	if _, old := r.wrote[now]; old || n >= 0 && now <= r.began[n].ofResource {
		return now
	}
	if k := r.known[o.String()]; k.last == now {
		return k.before
	}
	return 0
}

// revisions are the last two observed revisions of an object.
type revisions struct{ last, before int64 }
