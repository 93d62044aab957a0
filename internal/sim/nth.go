package sim

import (
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// atNth adds the faults of a pattern that names a number: the nth of all requests or events that match its other
// fields, which may be at several places. The search tries it with each length of a hold, unless the pattern names one.
func (c *candidates) atNth(p fault.Fault) {
	if p.Nth == 0 || occurrences(c.run, p) < p.Nth {
		return
	}
	kinds := []fault.Kind{p.Kind}
	if p.Kind == fault.KindCrash {
		kinds = []fault.Kind{fault.KindCrashBefore, fault.KindCrashAfter}
	}
	for _, p.Kind = range kinds {
		lengths := []fault.Fault{p}
		if p.For == 0 && p.Writes == 0 && p.Until == "" {
			lengths = c.pace.lengthsOf(p.Kind)
		}
		for n, l := range lengths {
			f := p
			f.For, f.Writes = l.For, l.Writes
			if !c.isFound(f) {
				c.found = append(c.found, ranked{Fault: f, rank: n, kind: n})
			}
		}
	}
}

// lengthsOf returns the lengths of holds to try for faults of a kind.
func (p Pace) lengthsOf(k fault.Kind) []fault.Fault {
	switch k {
	case fault.KindLag, fault.KindRelist:
		return p.lags
	case fault.KindLateAnswer, fault.KindLateRequest, fault.KindDeposedWrite:
		return p.holds
	case fault.KindPause:
		return p.pauses
	case fault.KindOverlap, fault.KindFinalizer, fault.KindOutage, fault.KindOtherServer:
		return p.whiles
	case fault.KindPartition:
		return p.partitions
	case fault.KindStaleList:
		return missedWrites
	}
	return unheld
}

// missedWrites are the numbers of writes that a stale list does not contain.
var missedWrites = []fault.Fault{{Writes: 1}, {Writes: 3}}

// occurrences counts the requests and events of clients that match the fields of a fault, apart from Nth, as
// fault.Plan does.
func occurrences(run *history.Run, f fault.Fault) (n int) {
	var clients []string
	for i := range run.Steps {
		s := &run.Steps[i]
		if s.Kind == history.Start {
			clients = append(clients, s.Actor)
		}
		for item, ofStep := range arrivals(s) {
			undelivered := ofStep && s.Kind == history.Frame && s.Reply != ""
			if !undelivered && slices.Contains(clients, item.Actor) && f.Matches(item) {
				n++
			}
		}
	}
	return n
}
