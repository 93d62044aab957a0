package sim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// postponing is a world whose actor updates many objects, and records at the end that it did. After a conflict it records at
// once, "to continue later": if it crashes then, an object is never updated. Only that pair of faults at one of many pairs of places is a
// failure.
type postponing struct{ objects int }

func (w postponing) Play(_ context.Context, p sim.Plan) (*sim.Outcome, error) {
	r := newWriter(p, func(f fault.Fault) int {
		switch f.Kind {
		case fault.KindConflict:
			return 409
		case fault.KindError:
			return 500
		}
		return 200
	})
	write := func(verb, resource, name string) (code int, crash bool) {
		s := r.write(verb, resource, name)
		if crash = strings.HasPrefix(s.Fault, string(fault.KindCrashAfter)); crash {
			r.run.Add(history.Step{Kind: history.Crash, Actor: "a"})
			r.run.Add(history.Step{Kind: history.Start, Actor: "a"})
		}
		return s.Code, crash
	}
	lost := ""
	for n := range w.objects {
		name := fmt.Sprint("m", n)
		code, _ := write("update", "configmaps", name)
		if code != 409 {
			continue
		}
		if _, crashed := write("patch", "deployments.apps", "db"); crashed {
			lost = name
			break
		}
		write("update", "configmaps", name)
	}
	write("patch", "deployments.apps", "db")
	run := r.run
	out := &sim.Outcome{Run: run, Unmet: r.plan.Unmet()}
	if lost != "" {
		run.Failure = &history.Failure{Oracle: "every object is updated", Message: lost + " is not", Step: len(run.Steps) - 1}
	}
	return out, nil
}

// TestNewSituationFirst: a fault at a request that the controller sends only after another fault is tried soon: the search that
// tries all single faults first needs many times as many runs.
func TestNewSituationFirst(t *testing.T) {
	kinds := []fault.Fault{fault.Of(fault.KindConflict), fault.Of(fault.KindError), fault.Of(fault.KindCrashAfter), fault.Of(fault.KindLostAnswer), fault.Of(fault.KindLag), fault.Of(fault.KindTimeout), fault.Of(fault.KindThrottle), fault.Of(fault.KindCrashBefore)}
	found := func(o sim.Options) int {
		o.Seed, o.Runs, o.Patterns = 1, 2000, kinds
		r := search(t, postponing{objects: 60}, o)
		if r.Failure == nil {
			return o.Runs
		}
		if faults := strings.Join(fault.Strings(r.Failure.Plan.Faults), "; "); len(r.Failure.Plan.Faults) != 2 || !strings.Contains(faults, "conflict") || !strings.Contains(faults, "crash-after") {
			t.Errorf("strategy %q found %s", o.Strategy, faults)
		}
		return r.Failure.FoundAfter
	}
	guided := found(sim.Options{})
	t.Logf("found in run %d", guided)
	n := found(sim.Options{Strategy: sim.Systematic})
	t.Logf("all single faults first: run %d", n)
	if n < 3*guided {
		t.Errorf("the search that tries all single faults first found it in run %d, the guided search in run %d", n, guided)
	}
}

// TestSituationsOnce: a search tries a kind of fault once in a situation, and not at each of many objects.
func TestSituationsOnce(t *testing.T) {
	kinds := []fault.Fault{fault.Of(fault.KindConflict), fault.Of(fault.KindError)}
	var played []sim.Plan
	r := search(t, recording{postponing{objects: 40}, &played}, sim.Options{Seed: 1, Runs: 300, Patterns: kinds})
	if r.Failure != nil {
		t.Fatal(r.Failure.Run.Failure)
	}
	again := 0
	for _, p := range played {
		if len(p.Faults) == 2 && p.Faults[0].Object == p.Faults[1].Object && p.Faults[0].Kind == fault.KindConflict && p.Faults[1].Kind == fault.KindError && p.Faults[1].Nth == 2 {
			again++
		}
	}
	if again == 0 || again > 4 { // random combinations may repeat one
		t.Errorf("an error of the second update after a conflict was tried %d times", again)
	}
}

// recording is a world that keeps the plans.
type recording struct {
	sim.World
	played *[]sim.Plan
}

func (w recording) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	*w.played = append(*w.played, p)
	return w.World.Play(ctx, p)
}

// succession is a world with a leader and a replica that waits. Both receive an event of each object. After a pause of the leader the replica
// writes what it has received. If the event of the last object is late, it reverts that object.
type succession struct{}

func (succession) Play(_ context.Context, p sim.Plan) (*sim.Outcome, error) {
	plan := fault.NewPlan(p.Faults)
	run := &history.Run{Header: history.Header{Format: history.Format, Seed: p.Seed, Faults: fault.Strings(p.Faults)}}
	object := func(n int) history.Object {
		return history.Object{Resource: "configmaps", Namespace: "default", Name: fmt.Sprint("m", n)}
	}
	const objects = 20
	for _, actor := range []string{"a/0", "a/1"} {
		run.Add(history.Step{Kind: history.Start, Actor: actor})
	}
	late := false
	for n := range objects {
		for _, actor := range []string{"a/0", "a/1"} {
			s := history.Step{Kind: history.Frame, Actor: actor, Type: "MODIFIED", Object: object(n), Stream: 1, Revision: int64(n + 1)}
			for _, f := range plan.Meet(fault.Item{Class: fault.Event, Actor: actor, Resource: "configmaps", Object: s.Key(), Type: s.Type}) {
				s.Fault = f.String()
				late = late || actor == "a/1" && f.Kind == fault.KindLag && n == objects-1
			}
			run.Add(s)
		}
	}
	write := func(actor string, n int) (paused bool) {
		s := history.Step{Kind: history.Request, Actor: actor, Verb: "update", Object: object(n), Code: 200, Revision: int64(objects + n + 1), Before: int64(n + 1), Versioned: true}
		for _, f := range plan.Meet(fault.Item{Class: fault.Call, Actor: actor, Verb: "update", Resource: "configmaps", Object: s.Key(), Write: true, Versioned: true}) {
			s.Fault = f.String()
			paused = paused || f.Kind == fault.KindPause
		}
		run.Add(s)
		return paused
	}
	failed := false
	for n := range objects {
		if write("a/0", n) {
			failed = late
			write("a/1", n)
		}
	}
	for _, actor := range []string{"a/0", "a/1"} { // a renewal of the lease, so that each event can matter
		run.Add(history.Step{Kind: history.Request, Actor: actor, Verb: "update", Object: history.Object{Resource: "leases.coordination.k8s.io", Namespace: "default", Name: "a"}, Code: 200, Revision: 100, Before: 99})
	}
	out := &sim.Outcome{Run: run, Unmet: plan.Unmet()}
	if failed {
		run.Failure = &history.Failure{Oracle: "no object is reverted", Message: "one is", Step: len(run.Steps) - 1}
	}
	return out, nil
}

// TestEventsBeforeSuccession: after a fault by which another replica becomes the leader, the search delays events that this replica has received before.
func TestEventsBeforeSuccession(t *testing.T) {
	r := search(t, succession{}, sim.Options{Seed: 1, Runs: 60, Patterns: []fault.Fault{fault.Of(fault.KindPause), fault.Of(fault.KindLag), fault.Of(fault.KindConflict)}})
	if r.Failure == nil {
		t.Fatalf("not found: %s", r.Tried())
	}
	t.Logf("found in run %d: %q", r.Failure.FoundAfter, fault.Strings(r.Failure.Plan.Faults))
}
