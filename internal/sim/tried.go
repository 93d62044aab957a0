package sim

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Place is where faults of one kind can act in the run without faults: the actor, verb, resource, object and target,
// with every number (Nth) and every duration of the hold. Empty fields match anything.
type Place struct {
	Kind                          fault.Kind
	Actor, Verb, Resource, Object string
	Target                        string
	// Tried, Redundant and Untried are the single faults of the place. The redundant ones need no run: they hold something for a
	// duration between those of two faults that made no difference.
	Tried, Redundant, Untried []fault.Fault
}

// String returns the place as a pattern of faults.
func (p Place) String() string {
	return fault.Fault{Kind: p.Kind, Actor: p.Actor, Verb: p.Verb, Resource: p.Resource, Object: p.Object, Target: p.Target}.String()
}

// placesOf groups single faults by place, in the order in which the search tries them.
func placesOf(single []fault.Fault, untried, redundant map[fault.Fault]bool) []Place {
	var places []Place
	at := map[fault.Fault]int{}
	for _, f := range single {
		key := fault.Fault{Kind: f.Kind, Actor: f.Actor, Verb: f.Verb, Resource: f.Resource, Object: f.Object, Target: f.Target}
		n, known := at[key]
		if !known {
			n = len(places)
			at[key] = n
			places = append(places, Place{Kind: f.Kind, Actor: f.Actor, Verb: f.Verb, Resource: f.Resource, Object: f.Object, Target: f.Target})
		}
		switch {
		case redundant[f]:
			places[n].Redundant = append(places[n].Redundant, f)
		case untried[f]:
			places[n].Untried = append(places[n].Untried, f)
		default:
			places[n].Tried = append(places[n].Tried, f)
		}
	}
	return places
}

// ListPlaces lists places as text, a line each: how many of the faults were tried, and where.
func ListPlaces(places []Place) string {
	if len(places) == 0 {
		return "no fault has a place in the run without faults\n"
	}
	counts := make([]string, len(places))
	width := 0
	for n, p := range places {
		counts[n] = fmt.Sprintf("%s of %s", Grouped(len(p.Tried)), Grouped(len(p.Tried)+len(p.Redundant)+len(p.Untried)))
		if len(p.Redundant) > 0 {
			counts[n] += fmt.Sprintf(" (%s redundant)", Grouped(len(p.Redundant)))
		}
		width = max(width, len(counts[n]))
	}
	var b strings.Builder
	for n, p := range places {
		fmt.Fprintf(&b, "%*s  %s\n", width, counts[n], p)
	}
	return b.String()
}

// Tried says how much was tried: "106 of 1,927 single faults (40 more redundant), 0 pairs, 109 runs".
func (r *Result) Tried() string {
	parts := []string{fmt.Sprintf("%s of %s single faults", Grouped(r.Systematic), Grouped(r.SystematicTotal)), plural(r.Pairs, "pair")}
	if r.Redundant > 0 {
		parts[0] += fmt.Sprintf(" (%s more redundant)", Grouped(r.Redundant))
	}
	if r.Larger > 0 {
		parts = append(parts, plural(r.Larger, "larger combination"))
	}
	if others := r.Random - r.Pairs - r.Larger; others > 0 {
		parts = append(parts, plural(others, "single fault")+" with other seeds or from earlier failures")
	}
	if r.NotApplied > 0 {
		parts = append(parts, plural(r.NotApplied, "run")+" whose faults did not apply")
	}
	if r.Schedules > 0 {
		parts = append(parts, plural(r.Schedules, "schedule"))
	}
	parts = append(parts, plural(r.Runs, "run"))
	if r.Repeats > 0 {
		parts = append(parts, plural(r.Repeats, "repeat")+" of failures")
	}
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Grouped(n) + " " + noun + "s"
}

// Grouped writes a number with a comma after each group of three digits: 1,927.
func Grouped(n int) string { return humanize.Comma(int64(n)) }
