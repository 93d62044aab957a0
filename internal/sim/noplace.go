package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/nearest"
)

// NoPlaceError reports a pattern of faults that matches no place of the run without faults: a search that it
// restricts would try nothing.
type NoPlaceError struct {
	Pattern fault.Fault
	// Reason says which field of the pattern matches nothing, and what would match.
	Reason string
}

func (e *NoPlaceError) Error() string {
	return fmt.Sprintf("fault pattern %q matches nothing in the run without faults: %s", e.Pattern, e.Reason)
}

// unmatched returns a *NoPlaceError for each pattern that matches none of the single faults.
func unmatched(run *history.Run, patterns, single []fault.Fault, pace Pace) (errs []*NoPlaceError) {
	for _, p := range patterns {
		matches := func(f fault.Fault) bool { return fault.Allowed([]fault.Fault{p}, f) }
		if !slices.ContainsFunc(single, matches) {
			errs = append(errs, &NoPlaceError{p, explainNoPlace(run, p, pace)})
		}
	}
	return errs
}

// Broad reports whether the pattern names only a kind and an actor: it may come from a list of all kinds.
func (e *NoPlaceError) Broad() bool {
	return e.Pattern == fault.Fault{Kind: e.Pattern.Kind, Actor: e.Pattern.Actor}
}

// suggestions is how many places or values an explanation lists.
const suggestions = 5

// field is a field of a fault pattern.
type field struct {
	name  string
	value func(fault.Fault) string
	clear func(*fault.Fault)
}

// fields are the fields of a pattern that restrict its places, the most specific first.
var fields = []field{
	{"nth", func(f fault.Fault) string { return "" }, func(f *fault.Fault) { f.Nth = 0 }},
	{"target", func(f fault.Fault) string { return f.Target }, func(f *fault.Fault) { f.Target = "" }},
	{"object", func(f fault.Fault) string { return f.Object }, func(f *fault.Fault) { f.Object = "" }},
	{"verb", func(f fault.Fault) string { return f.Verb }, func(f *fault.Fault) { f.Verb = "" }},
	{"resource", func(f fault.Fault) string { return f.Resource }, func(f *fault.Fault) { f.Resource = "" }},
	{"actor", func(f fault.Fault) string { return f.Actor }, func(f *fault.Fault) { f.Actor = "" }},
}

// explainNoPlace says why a pattern matches no place of a run: the field without which it would match, and the
// values of that field which are most similar.
func explainNoPlace(run *history.Run, p fault.Fault, pace Pace) string {
	if len(Candidates(run, []fault.Fault{p}, pace)) > 0 {
		return "all its places are excluded: their clients are trusted, or the faults are excepted"
	}
	for _, field := range fields {
		wider := p
		field.clear(&wider)
		if wider == p {
			continue
		}
		found := Candidates(run, []fault.Fault{wider}, pace)
		if len(found) == 0 {
			continue
		}
		if field.name == "nth" {
			return fmt.Sprintf("nth=%d is too high: %q occurs %s", p.Nth, wider, times(occurrences(run, wider)))
		}
		return explainValue(field, p, found)
	}
	places := placesOf(Candidates(run, []fault.Fault{{Kind: p.Kind}}, pace), nil, nil)
	if len(places) == 0 && p.Kind == fault.KindTimeTravel && pace.randomNames {
		return "a real API server cannot serve an older state; package simtest can"
	}
	if len(places) == 0 {
		return fmt.Sprintf("%s acts on %s, and the run has none on which a later request depends", p.Kind, actsOn(p.Kind))
	}
	var texts []string
	for _, place := range places {
		texts = append(texts, place.String())
	}
	return "nearest places: " + strings.Join(quoted(nearest.Names(p.String(), texts, suggestions)), ", ")
}

// explainValue lists the values of a field among the faults that match without it.
func explainValue(field field, p fault.Fault, found []fault.Fault) string {
	var values []string
	unnamed := false
	for _, f := range found {
		if v := field.value(f); v != "" {
			values = append(values, v)
		} else {
			unnamed = true
		}
	}
	text := fmt.Sprintf("it has no place for %s=%s", field.name, field.value(p))
	if len(values) > 0 {
		text += "; nearest: " + strings.Join(nearest.Names(field.value(p), values, suggestions), ", ")
	}
	if field.name == "object" && unnamed {
		text += "; an object with a generated name cannot be named: use nth"
	}
	return text
}

func actsOn(k fault.Kind) string {
	switch k.Class() {
	case fault.Event:
		return "watch events"
	case fault.Process:
		return "a client at one of its writes"
	case fault.Interference:
		return "objects that a client writes"
	default:
		return "requests"
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func quoted(texts []string) []string {
	for n, text := range texts {
		texts[n] = fmt.Sprintf("%q", text)
	}
	return texts
}
