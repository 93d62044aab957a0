package invariant

import "github.com/rehearse-k8s/rehearse/history"

// Decision is a write of a controller, with what the caches of the controller lacked when it was decided.
type Decision struct {
	// Write is the step of the write, and Decided the step at which its reconcile started.
	Write, Decided int
	// Behind has, for each resource that the controller watches, how many writes its cache had not observed; 0: the cache
	// was current.
	Behind map[string]int
}

// Decisions returns the writes of all controllers, in the order in which they were decided, without Leases and Events. In a
// record of real processes, the start of a reconcile is inferred from the order of requests.
func Decisions(run *history.Run) (all []Decision) {
	decided := decisionsOf(run)
	t := newTracker(run)
	for i := range run.Steps {
		t.observe(i)
		for _, write := range decided.writes[i] {
			if s := &run.Steps[write]; !history.Bookkeeping(s.Resource) {
				all = append(all, Decision{Write: write, Decided: i, Behind: t.missing(s.Actor)})
			}
		}
	}
	return all
}

// missing returns, for each resource that an actor watches, the number of writes that none of its caches has received.
func (t *tracker) missing(actor string) map[string]int {
	missing := map[string]int{}
	for resource, lowerBound := range t.lowerBounds(actor) {
		if history.Bookkeeping(resource) {
			continue
		}
		missing[resource] = 0
		writes := t.writes[resource]
		for n := len(writes) - 1; n >= 0; n-- {
			s := &t.run.Steps[writes[n]]
			if s.Revision <= lowerBound && !t.mixed[resource] {
				break
			}
			if t.unseen(actor, s) != nil {
				missing[resource]++
			}
		}
	}
	return missing
}

// isBehind reports whether an actor watches something of which no cache has received all writes.
func (t *tracker) isBehind(actor string) bool {
	for _, n := range t.missing(actor) {
		if n > 0 {
			return true
		}
	}
	return false
}
