package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// cell is one thing that a run can cover: a kind of write, and the circumstances under which it was decided or sent. Either
// cache and behind are set, or kind is.
type cell struct {
	coverage.Write
	cache  string // a resource that the controller watches
	behind string // one of behindTexts
	kind   fault.Kind
	relist string // the resource of a relist
}

// behindTexts are the numbers of versions that a cache is behind, as the coverage counts them.
var behindTexts = [...]string{"0", "1", "2-3", "4+"}

func behindText(n int) string {
	switch {
	case n < 2:
		return behindTexts[n]
	case n < 4:
		return behindTexts[2]
	}
	return behindTexts[3]
}

// cellsOf returns the cells that a run covers.
func cellsOf(out *Outcome) map[cell]bool {
	run := out.Run
	cells := map[cell]bool{}
	named, _ := fired(out)
	for _, f := range named {
		if f.Verb != "" && history.IsWriteVerb(f.Verb) {
			cells[cell{Write: coverage.Write{Actor: actorName(f.Actor), Verb: f.Verb, Resource: f.Resource}, kind: f.Kind}] = true
		}
	}
	relists := relistsOf(run)
	for _, d := range invariant.Decisions(run) {
		s := &run.Steps[d.Write]
		w := writeOf(s)
		for cache, n := range d.Behind {
			cells[cell{Write: w, cache: cache, behind: behindText(n)}] = true
		}
		for _, r := range relists {
			if r.step < d.Write && r.actor == w.Actor {
				cells[cell{Write: w, kind: fault.KindRelist, relist: r.resource}] = true
			}
		}
	}
	return cells
}

// writeOf returns the kind of a write.
func writeOf(s *history.Step) coverage.Write {
	resource := s.Resource
	if s.Subresource != "" {
		resource += "/" + s.Subresource
	}
	return coverage.Write{Actor: actorName(s.Actor), Verb: s.Verb, Resource: resource}
}

// actorName returns the name that all instances of an actor share.
func actorName(actor string) string { return strings.TrimRight(actor, "+") }

type relist struct {
	step            int
	actor, resource string
}

// relistsOf returns the relists that faults caused in a run.
func relistsOf(run *history.Run) (relists []relist) {
	for n := range run.Steps {
		if s := &run.Steps[n]; strings.HasPrefix(s.Fault, string(fault.KindRelist)) {
			relists = append(relists, relist{n, actorName(s.Actor), s.Resource})
		}
	}
	return relists
}

// cover adds the cells that a run covers, and returns how many of them are new.
func (s *search) cover(out *Outcome) (fresh int) {
	for c := range cellsOf(out) {
		if !s.cells[c] {
			s.cells[c] = true
			fresh++
		}
	}
	return fresh
}

// coveredKinds are the faults whose coverage is reported for each kind of write.
var coveredKinds = []fault.Kind{fault.KindCrashBefore, fault.KindCrashAfter, fault.KindLostAnswer, fault.KindConflict, fault.KindLateRequest, fault.KindDeposedWrite, fault.KindOutage}

// coverage returns what the search covered, by kind of write.
func (s *search) coverage() []coverage.Row {
	writes := map[coverage.Write]bool{}
	caches := map[coverage.Write]map[string]map[string]bool{}
	for c := range s.cells {
		writes[c.Write] = true
		if c.cache == "" {
			continue
		}
		if caches[c.Write] == nil {
			caches[c.Write] = map[string]map[string]bool{}
		}
		if caches[c.Write][c.cache] == nil {
			caches[c.Write][c.cache] = map[string]bool{}
		}
		caches[c.Write][c.cache][c.behind] = true
	}
	possible := map[cell]bool{}
	for _, f := range s.singles {
		possible[cell{Write: coverage.Write{Actor: actorName(f.Actor), Verb: f.Verb, Resource: f.Resource}, kind: f.Kind}] = true
	}
	all := make([]coverage.Row, 0, len(writes))
	for w := range writes {
		c := coverage.Row{Write: w, Caches: map[string][]string{}, Reasons: map[fault.Kind]string{}}
		for _, k := range coveredKinds {
			switch at := (cell{Write: w, kind: k}); {
			case s.cells[at]:
				c.Tried = append(c.Tried, k)
			case possible[at]:
				c.NotTried = append(c.NotTried, k)
				c.Reasons[k] = s.whyNotTried(w, k)
			default:
				c.Impossible = append(c.Impossible, k)
				c.Reasons[k] = s.whyImpossible(w, k)
			}
		}
		for _, resource := range slices.Sorted(maps.Keys(caches[w])) {
			for _, text := range behindTexts {
				if caches[w][resource][text] {
					c.Caches[resource] = append(c.Caches[resource], text)
				}
			}
			if s.cells[cell{Write: w, kind: fault.KindRelist, relist: resource}] {
				c.Relisted = append(c.Relisted, resource)
			} else {
				c.NotRelisted = append(c.NotRelisted, resource)
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b coverage.Row) int { return cmp.Compare(a.Write.String(), b.Write.String()) })
	return all
}

// The reasons why the search did not reach a fault at a kind of write.
const (
	reasonEnded      = "the search ended before"
	reasonRedundant  = "redundant: shorter and longer ones made no difference"
	reasonUnmet      = "tried, but the write did not happen in those runs"
	reasonNothingNew = "tried, but those runs were like earlier ones"
	reasonNoWrite    = "the run without faults has no such write"
	reasonNotAllowed = "the test does not allow this fault"
	reasonNoRevision = "the write names no resourceVersion"
	reasonNoPlace    = "this fault cannot act on this write"
)

// whyNotTried says why a fault that has a place at a kind of write is not covered there.
func (s *search) whyNotTried(w coverage.Write, k fault.Kind) string {
	reason := reasonRedundant
	for _, f := range s.singles {
		if f.Kind != k || (coverage.Write{Actor: actorName(f.Actor), Verb: f.Verb, Resource: f.Resource}) != w {
			continue
		}
		switch {
		case !s.single[f]:
			return reasonNothingNew
		case s.tried[identity(Plan{Seed: s.options.Seed, Faults: []fault.Fault{f}})]:
			reason = reasonUnmet
		case reason == reasonRedundant && !s.guide.redundant[f]:
			reason = reasonEnded
		}
	}
	return reason
}

// whyImpossible says why a fault has no place at a kind of write.
func (s *search) whyImpossible(w coverage.Write, k fault.Kind) string {
	if s.guide == nil {
		return reasonEnded
	}
	found, allowed, versioned := false, false, false
	for n := range s.result.Baseline.Steps {
		step := &s.result.Baseline.Steps[n]
		if step.Kind != history.Request || writeOf(step) != w {
			continue
		}
		f := fault.Fault{Kind: k, Actor: step.Actor, Verb: w.Verb, Resource: w.Resource, Object: step.Key()}
		found, versioned = true, versioned || step.Versioned || step.Verb == "update"
		allowed = allowed || fault.Allowed(s.patterns, f) && !s.isExcluded(f)
	}
	switch {
	case !found:
		return reasonNoWrite
	case !allowed:
		return reasonNotAllowed
	case k == fault.KindConflict && !versioned:
		return reasonNoRevision
	}
	return reasonNoPlace
}
