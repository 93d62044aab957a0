package proxy

import (
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

// record builds a record from the steps, with its writes in the order of their revisions. The lock is held.
func (r *Run) record() *history.Run {
	record := &history.Run{Header: r.header, Steps: slices.Clone(r.steps)}
	revisions := make([]int64, len(r.steps))
	for n := range record.Steps {
		s := &record.Steps[n]
		// The event of a write may arrive before the answer, and so before the revision of the
		// write is known.
		if write, ok := r.wrote[s.Revision]; ok && s.Kind == history.Frame {
			s.Causes = append(slices.Clone(s.Causes), write)
		}
		// A write whose revision is older than one that was known when it was sent does not move others: it
		// changed nothing, or its resource has an etcd of its own.
		if s.Wrote() && s.Revision > r.began[n].newest {
			revisions[n] = s.Revision
		}
	}
	record, _ = record.Reordered(history.OrderWrites(revisions))
	return record
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
