package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// after returns the outcome of a run in which a controller updates an object, with an answer, and then patches it.
func after(code int, faults ...fault.Fault) *Outcome {
	run := &history.Run{Header: history.Header{Format: history.Format}}
	run.Add(history.Step{Kind: history.Start, Actor: "c"})
	for _, verb := range []string{"update", "patch"} {
		run.Add(history.Step{
			Kind: history.Request, Actor: "c", Verb: verb, Object: history.Object{Resource: "configmaps", Namespace: "default", Name: "a"},
			Code: code, Revision: int64(len(run.Steps) + 1), Before: int64(len(run.Steps)), Guarded: true,
		})
		code = 200
	}
	return &Outcome{Run: run, Plan: Plan{Seed: 1, Faults: faults}}
}

// conflict is the fault of the runs in which the update is answered with a conflict.
var conflict = fault.Fault{Kind: fault.KindConflict, Actor: "c", Verb: "update", Resource: "configmaps", Object: "default/a", Nth: 1}

// begun returns a search after a run without faults.
func begun() *search {
	first := after(200)
	s := &search{options: Options{Seed: 1}, pace: Virtual, patterns: fault.Any(fault.Legal), result: &Result{Baseline: first.Run}}
	s.guide = newGuide(nil, first.Run.Signature())
	for _, now := range situationsOf(first.Run) {
		s.guide.usual[now] = true
	}
	return s
}

// TestDroppedBaseIsExtended: a plan whose run is dropped, because there are too many, keeps its extensions. Its record is kept only while those of
// all such plans are small.
func TestDroppedBaseIsExtended(t *testing.T) {
	s := begun()
	s.addBase(after(409, conflict), 0)
	s.guide.bases[0].runs = 50
	for n := range maxBases {
		s.addBase(after(200, fault.Fault{Kind: fault.KindError, Actor: "c", Object: fmt.Sprint("default/", n), Nth: 1}), 0)
	}
	o := s.guide.origins[0]
	if s.guide.bases[0].out.Plan.Faults[0] == conflict || o.out == nil || len(o.extensions) > 0 {
		t.Fatalf("dropped: %v; record kept: %v; %d extensions", s.guide.bases[0].out.Plan.Faults, o.out != nil, len(o.extensions))
	}
	drop := func(out *Outcome) *origin {
		s.addBase(out, 0)
		b := s.guide.bases[slices.IndexFunc(s.guide.bases, func(b *base) bool { return b.out == out })]
		b.runs = 50
		s.addBase(after(200), 0)
		return b.origin
	}
	large := func(nth, steps int) *Outcome {
		out := after(200, fault.Fault{Kind: fault.KindError, Actor: "c", Object: "default/large", Nth: nth})
		out.Run.Steps = append(out.Run.Steps, make([]history.Step, steps-len(out.Run.Steps))...)
		return out
	}
	known := drop(large(2, maxDroppedSteps-10))
	s.findExtensions(known)
	second := drop(large(3, maxDroppedSteps-30)) // each drop adds a small record of another base too
	if o.out == nil || second.out == nil {
		t.Fatal("the record of a plan whose extensions are known counts, although it is not kept")
	}
	if third := drop(large(4, 40)); o.out != nil || len(o.extensions) == 0 || second.out != nil || third.out == nil {
		t.Fatalf("too many steps: records kept: %v, %v, %v, and the first has %d extensions", o.out != nil, second.out != nil, third.out != nil, len(o.extensions))
	}
	best, index := s.cheapest(math.MaxInt)
	if best != o {
		t.Fatalf("the cheapest extension is of another plan: %+v", best)
	}
	all := best.extensions
	best.extensions = all[slices.IndexFunc(all, func(e extension) bool { return e.cost > leastCost(best.plan) }):]
	cost := best.extensions[0].cost
	if other, _ := s.cheapest(cost); other != nil {
		t.Errorf("with the limit %d, an extension that costs as much", cost)
	}
	if again, _ := s.cheapest(cost + 1); again != best {
		t.Errorf("with the limit %d, no extension that costs less", cost+1)
	}
	best.extensions = all
	if p := s.extend(best, index); len(p.Faults) != 2 || p.Faults[0] != conflict || p.Faults[1].Verb != "patch" {
		t.Errorf("the plan is %v", fault.Strings(p.Faults))
	}
}

// TestCostOfExtensions: an error comes before the kinds that usually act like one, a pair before a larger combination, and no trial is offered
// twice.
func TestCostOfExtensions(t *testing.T) {
	s := begun()
	pairs := s.extensionsOf(after(409, conflict))
	of := func(all []extension, k fault.Kind) int {
		return slices.IndexFunc(all, func(e extension) bool { return e.Kind == k })
	}
	if e, throttle := of(pairs, fault.KindError), of(pairs, fault.KindThrottle); e < 0 || throttle < e || pairs[throttle].cost < pairs[e].cost+alikeCost {
		t.Errorf("an error is number %d, a throttled request number %d of %d", e, throttle, len(pairs))
	}
	if again := s.extensionsOf(after(409, conflict)); len(again) > 0 {
		t.Errorf("offered again: %v", again)
	}
	further := begun().extensionsOf(after(409, fault.Fault{Kind: fault.KindPause, Actor: "c"}, conflict))
	if n := of(further, fault.KindError); n < 0 || further[n].cost != pairs[of(pairs, fault.KindError)].cost+depthCost {
		t.Errorf("with one more fault: %+v", further)
	}
}

// TestNoFaultWithoutEffect: no plan is extended by a fault that has no effect together with the plan's own fault at the same request, or at a request
// that the fault blocks.
func TestNoFaultWithoutEffect(t *testing.T) {
	s := begun()
	kindsAt := func(step int, faults ...fault.Fault) (kinds []fault.Kind) {
		out := after(503, faults...)
		out.Run.Steps[1].Fault = faults[0].String()
		for _, f := range s.ranked(out.Run, faults) {
			if f.step == step {
				kinds = append(kinds, f.Kind)
			}
		}
		return kinds
	}
	at := fault.Fault{Actor: "c", Verb: "update", Resource: "configmaps", Object: "default/a", Nth: 1}
	for _, c := range []struct {
		kind     fault.Kind
		has, not []fault.Kind
	}{
		{fault.KindOutage, []fault.Kind{fault.KindLostAnswer}, []fault.Kind{fault.KindError, fault.KindCrashBefore, fault.KindConflict}},
		{fault.KindConflict, []fault.Kind{fault.KindError, fault.KindCrashAfter}, []fault.Kind{fault.KindConflict}},
	} {
		f := at
		f.Kind = c.kind
		kinds := kindsAt(1, f)
		for _, k := range c.has {
			if !slices.Contains(kinds, k) {
				t.Errorf("after %s: %s is missing among %v", c.kind, k, kinds)
			}
		}
		for _, k := range c.not {
			if slices.Contains(kinds, k) {
				t.Errorf("after %s: %s has no effect", c.kind, k)
			}
		}
	}
}

// TestAfterCrash: the first request after a crash that prevented the same request is another one: every fault can act on it. The write of a
// deposed leader, which is served while its successor runs, gets none.
func TestAfterCrash(t *testing.T) {
	s := begun()
	s.patterns = append(fault.Any(fault.Legal), fault.Of(fault.KindTimeTravel))
	at := fault.Fault{Actor: "c", Verb: "update", Resource: "configmaps", Object: "default/a", Nth: 1}
	for _, kind := range []fault.Kind{fault.KindCrashBefore, fault.KindTimeTravel, fault.KindDeposedWrite} {
		f := at
		f.Kind = kind
		successor := "c"
		if kind == fault.KindDeposedWrite {
			successor = "c+"
		}
		again := after(200, f)
		requests := again.Run.Steps[1:]
		run := &history.Run{Header: again.Run.Header}
		run.Add(history.Step{Kind: history.Start, Actor: "c"})
		pending := requests[0]
		pending.Code, pending.Revision, pending.Before = 0, 0, 0
		run.Add(history.Step{Kind: history.Crash, Actor: "c", Fault: f.String(), Unrecorded: []history.Arrival{pending.Arrived()}})
		run.Add(history.Step{Kind: history.Start, Actor: successor})
		deposed := -1
		for _, r := range requests {
			if r.Actor = successor; r.Verb == "patch" && kind == fault.KindDeposedWrite {
				late := requests[0]
				late.Fault, late.Code, late.Revision = f.String(), 409, 0
				deposed = run.Add(late).N
			}
			run.Add(r)
		}
		of := map[int][]fault.Fault{}
		for _, c := range s.ranked(run, []fault.Fault{f}) {
			of[c.step] = append(of[c.step], c.Fault)
		}
		for _, want := range []fault.Kind{fault.KindCrashBefore, fault.KindCrashAfter, fault.KindLostAnswer, fault.KindError} {
			n := slices.IndexFunc(of[3], func(f fault.Fault) bool { return f.Kind == want })
			if n < 0 {
				t.Errorf("after %s, the repeated update does not get the fault %s, but %v", kind, want, fault.Strings(of[3]))
				continue
			}
			if nth := map[string]int{"c": 2, "c+": 1}[successor]; of[3][n].Nth != nth {
				t.Errorf("after %s: %s; want nth=%d", kind, of[3][n], nth)
			}
		}
		third := at
		third.Kind, third.Nth = fault.KindLostAnswer, 3
		if hits := hitsAt(run, []fault.Fault{f, third})[deposed]; len(hits) > 0 {
			t.Errorf("%v act on a deposed leader's write", fault.Strings(hits))
		}
		if len(of[deposed]) > 0 {
			t.Errorf("faults of a deposed leader's write: %v", fault.Strings(of[deposed]))
		}
	}
}
