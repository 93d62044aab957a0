package sim_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// TestRedundantDurations: if a hold of 40s changes nothing, neither does a shorter one, so it is not tried.
func TestRedundantDurations(t *testing.T) {
	w := &toy{same: true}
	r := search(t, w, sim.Options{Seed: 1, Runs: 500, Patterns: []fault.Fault{fault.Lag("pods")}})
	if r.Redundant == 0 || r.Systematic+r.Redundant != r.SystematicTotal {
		t.Errorf("%d tried, %d redundant of %d", r.Systematic, r.Redundant, r.SystematicTotal)
	}
	for _, p := range w.played {
		if len(p.Faults) == 1 && p.Faults[0].Writes > 0 {
			t.Errorf("tried %s, although a hold until nothing else can happen changes nothing", p.Faults[0])
		}
	}
	tried := map[string]bool{}
	for _, p := range r.Places {
		tried[p.Object] = len(p.Tried) > 0 && len(p.Untried) == 0
	}
	for _, object := range []string{"default/p0", "default/p1", "default/p2"} {
		if !tried[object] {
			t.Errorf("nothing was tried at %s", object)
		}
	}
	if text := r.Tried(); !strings.Contains(text, " more redundant)") {
		t.Error(text)
	}
}

// TestRelevance: the places of the resources that the user or a controller writes come first, Leases and Events last.
func TestRelevance(t *testing.T) {
	run := &history.Run{Header: history.Header{Format: history.Format}}
	object := func(resource string) history.Object {
		return history.Object{Resource: resource, Namespace: "default", Name: "a"}
	}
	run.Add(history.Step{Kind: history.Start, Actor: "c"})
	for _, resource := range []string{"events", "secrets", "webs.example.com"} {
		run.Add(history.Step{Kind: history.Frame, Actor: "c", Type: "ADDED", Object: object(resource), Revision: 3, Stream: len(run.Steps)})
	}
	run.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "create", Object: object("webs.example.com"), Code: 201, Revision: 3})
	run.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "create", Object: object("events"), Code: 201, Revision: 4})
	run.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "create", Object: object("pods"), Code: 201, Revision: 5})
	var order []string
	for _, f := range sim.Candidates(run, fault.Any(fault.Legal), sim.Virtual) {
		if n := len(order); n == 0 || order[n-1] != f.Resource {
			order = append(order, f.Resource)
		}
	}
	last := func(resource string) (n int) {
		for i, r := range order {
			if r == resource {
				n = i
			}
		}
		return n
	}
	first := func(resource string) int { return slices.Index(order, resource) }
	if first("webs.example.com") > 1 || first("pods") > 1 || first("secrets") < last("webs.example.com")-1 || first("events") < first("secrets") {
		t.Errorf("the order of resources is %v", order)
	}
}

// TestCombinationsExtend: a combination keeps the seed of the run that it extends, because its faults name objects.
func TestCombinationsExtend(t *testing.T) {
	w := &toy{}
	r := search(t, w, sim.Options{Seed: 7, Runs: 300})
	if r.Pairs == 0 || r.Larger == 0 {
		t.Errorf("%d pairs, %d larger combinations", r.Pairs, r.Larger)
	}
	for _, p := range w.played {
		if len(p.Faults) > 0 && p.Seed != 7 {
			t.Errorf("seed %d of %v", p.Seed, p.Faults)
		}
		for n, f := range p.Faults {
			for _, other := range p.Faults[:n] {
				f.For, f.Writes, other.For, other.Writes = 0, 0, 0, 0
				if f == other {
					t.Errorf("the same fault twice: %v", p.Faults)
				}
			}
		}
	}
}

// TestNotApplied: a plan whose fault meets nothing is not counted as tried. If it was kept, it no longer applies.
func TestNotApplied(t *testing.T) {
	gone := fault.Fault{Kind: fault.KindLag, Actor: "a", Resource: "pods", Object: "default/gone", Nth: 1}
	here := fault.Fault{Kind: fault.KindLag, Actor: "a", Resource: "pods", Object: "default/p0", Nth: 1}
	r := search(t, &toy{}, sim.Options{Seed: 1, Runs: 5, First: []sim.Plan{{Seed: 1, Faults: []fault.Fault{gone}}, {Seed: 1, Faults: []fault.Fault{here}}}})
	if r.Runs != 5 || r.Systematic != 1 || r.NotApplied != 1 || len(r.NoLongerApply) != 1 || r.NoLongerApply[0].Faults[0] != gone {
		t.Errorf("%d runs, %d tried, %d did not apply: %v", r.Runs, r.Systematic, r.NotApplied, r.NoLongerApply)
	}
}

// TestCoverage: for each kind of write, what acted on it, what did not, and what cannot.
func TestCoverage(t *testing.T) {
	few := search(t, &toy{}, sim.Options{Seed: 1, Runs: 8, Patterns: []fault.Fault{fault.Of(fault.KindCrashAfter), fault.Of(fault.KindLostAnswer)}})
	if len(few.Coverage) != 1 {
		t.Fatalf("%+v", few.Coverage)
	}
	c := few.Coverage[0]
	if c.String() != "a update pods/status" || !slices.Contains(c.Tried, fault.KindCrashAfter) || !slices.Contains(c.Impossible, fault.KindConflict) {
		t.Errorf("%+v", c)
	}
	text := coverage.List(few.Coverage)
	for _, want := range []string{"a update pods/status\n", "tried with: crash-after", "no place at this write: ", "conflict (the test does not allow this fault)"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	one := search(t, &toy{}, sim.Options{Seed: 1, Runs: 4, Patterns: []fault.Fault{fault.Of(fault.KindCrashAfter), fault.Of(fault.KindLostAnswer)}})
	if c := one.Coverage[0]; len(c.NotTried) != 1 || c.Reasons[c.NotTried[0]] != "the search ended before" {
		t.Errorf("after one fault: %+v", c)
	}
}

// TestCoverageReasons: what a search did not reach has the reason that applies.
func TestCoverageReasons(t *testing.T) {
	conflicts := []fault.Fault{fault.Of(fault.KindConflict), fault.Of(fault.KindLostAnswer)}
	for _, c := range []struct {
		name  string
		world sim.World
		o     sim.Options
		kind  fault.Kind
		want  string
	}{
		{"the runs were like earlier ones", &toy{same: true}, sim.Options{Runs: 60, Patterns: conflicts}, fault.KindConflict, "tried, but those runs were like earlier ones"},
		{"no resourceVersion", &altered{change: func(s *history.Step) { s.Versioned, s.Verb = false, strings.Replace(s.Verb, "update", "patch", 1) }}, sim.Options{Runs: 20, Patterns: conflicts}, fault.KindConflict, "the write names no resourceVersion"},
		{"excepted", &altered{except: conflicts[:1]}, sim.Options{Runs: 20, Patterns: conflicts}, fault.KindConflict, "the test does not allow this fault"},
		{"no such write without faults", &altered{onlyFaults: true}, sim.Options{Runs: 20, Patterns: conflicts}, fault.KindConflict, "the run without faults has no such write"},
		{"the write did not happen", &altered{unmet: true}, sim.Options{Runs: 60, Patterns: conflicts}, fault.KindConflict, "tried, but the write did not happen in those runs"},
	} {
		c.o.Seed = 1
		r, err := sim.Search(t.Context(), c.world, c.o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range r.Coverage {
			got = append(got, one.String()+": "+one.Reasons[c.kind])
		}
		if !slices.ContainsFunc(got, func(text string) bool { return strings.HasSuffix(text, ": "+c.want) }) {
			t.Errorf("%s: got %q", c.name, got)
		}
	}
}

// altered is a toy with other runs.
type altered struct {
	toy
	change     func(*history.Step)
	except     []fault.Fault
	onlyFaults bool // with a fault, the actor also deletes an object
	unmet      bool // no fault of a conflict meets a request
}

func (w *altered) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	out, err := w.toy.Play(ctx, p)
	if err != nil {
		return nil, err
	}
	run := &history.Run{Header: out.Run.Header}
	for _, s := range out.Run.Steps {
		if w.change != nil {
			w.change(&s)
		}
		if w.unmet && strings.HasPrefix(s.Fault, string(fault.KindConflict)) {
			s.Fault = ""
		}
		run.Add(s)
	}
	if w.onlyFaults && len(p.Faults) > 0 {
		run.Add(history.Step{Kind: history.Request, Actor: "a", Verb: "delete", Object: history.Object{Resource: "pods", Namespace: "default", Name: "p0"}, Code: 200, Revision: 9, Before: 2, Causes: []int{1}})
	}
	if w.unmet {
		out.Unmet = slices.DeleteFunc(slices.Clone(p.Faults), func(f fault.Fault) bool { return f.Kind != fault.KindConflict })
	}
	out.Run, out.Except = run, w.except
	return out, nil
}
