package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// toy is a world without Kubernetes: an actor "a" observes three objects and writes each once. breaks decides
// whether a run violates an invariant.
type toy struct {
	breaks func(p sim.Plan) bool
	state  func(p sim.Plan) verdict.State
	later  func(p sim.Plan) verdict.State // the state of a run that is observed after its end
	// message, if set, describes the violation.
	message func(p sim.Plan) string
	err     error
	odd     bool               // every run has different steps
	rare    func(run int) bool // the runs whose events differ from those of the others
	same    bool               // faults make no difference
	choices int                // Outcome.Choices
	played  []sim.Plan
}

func (w *toy) Play(_ context.Context, p sim.Plan) (*sim.Outcome, error) {
	if w.err != nil {
		return nil, w.err
	}
	w.played = append(w.played, p)
	plan := fault.NewPlan(p.Faults)
	run := &history.Run{Header: history.Header{Format: history.Format, Seed: p.Seed, Faults: fault.Strings(p.Faults), Schedule: p.Schedule}}
	run.Add(history.Step{Kind: history.Start, Actor: "a"})
	for n := range 3 {
		object := history.Object{Resource: "pods", Namespace: "default", Name: fmt.Sprint("p", n)}
		frame := history.Step{Kind: history.Frame, Actor: "a", Object: object, Type: "ADDED", Stream: 1, Revision: int64(2*n + 1), Causes: []int{0}}
		for _, f := range plan.Meet(fault.Item{Class: fault.Event, Actor: "a", Resource: "pods", Object: object.Key(), Type: "ADDED"}) {
			frame.Fault, frame.Code = f.String(), w.effect(f, frame.Code)
		}
		if w.odd {
			frame.Type = fmt.Sprint("MODIFIED in run ", len(w.played))
		}
		if w.rare != nil && w.rare(len(w.played)) {
			frame.Type = "MODIFIED"
		}
		run.Add(frame)
		write := history.Step{Kind: history.Request, Actor: "a", Verb: "update", Object: object, Subresource: "status", Code: 200, Revision: int64(2*n + 2), Before: int64(2*n + 1), Guarded: true, Versioned: true, Causes: []int{len(run.Steps) - 1}}
		for _, f := range plan.Meet(fault.Item{Class: fault.Call, Actor: "a", Verb: "update", Resource: "pods/status", Object: object.Key(), Write: true, Versioned: true}) {
			write.Fault, write.Code = f.String(), w.effect(f, write.Code)
		}
		if w.odd {
			write.Digest = fmt.Sprint(len(w.played))
		}
		run.Add(write)
	}
	out := &sim.Outcome{Run: run, Choices: w.choices, Unmet: plan.Unmet(), Seen: map[string]bool{"something": len(p.Faults) > 1}}
	if w.breaks != nil && w.breaks(p) {
		run.Failure = &history.Failure{Oracle: "the toy holds", Message: "it does not", Step: 6}
		if w.message != nil {
			run.Failure.Message = w.message(p)
		}
	}
	if w.state != nil {
		if s := w.state(p); p.Learn {
			out.State = s
		} else if p.Expect != nil && run.Failure == nil {
			if err := p.Expect(s); err != nil {
				out.State = s
				run.Failure = &history.Failure{Oracle: verdict.BaselineOracle, Message: err.Error(), Step: 6}
			}
		}
		if p.Observe && w.later != nil {
			out.Later = []verdict.State{w.later(p)}
		}
	}
	return out, nil
}

// effect is how the actor observes a fault.
func (w *toy) effect(f fault.Fault, code int) int {
	if w.same {
		return code
	}
	return 200 + fault.Pick(99, 1, f.String())
}

func search(t *testing.T, w sim.World, o sim.Options) *sim.Result {
	t.Helper()
	r, err := sim.Search(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func has(p sim.Plan, kind fault.Kind, object string) bool {
	return slices.ContainsFunc(p.Faults, func(f fault.Fault) bool { return f.Kind == kind && (object == "" || f.Object == object) })
}

// TestSystematic: the search tries every single fault at every place once: the most promising kinds at each place first, the
// others in alternation with combinations.
func TestSystematic(t *testing.T) {
	w := &toy{}
	r := search(t, w, sim.Options{Seed: 1, Runs: 500})
	if r.Failure != nil || r.Systematic != r.SystematicTotal || r.Systematic == 0 || r.Runs != 500 || r.Random != 500-3-r.Systematic {
		t.Fatalf("%+v", r)
	}
	seen := map[string]bool{}
	for n, p := range w.played[3:500] {
		text := strings.Join(fault.Strings(p.Faults), ";")
		if n < 6 && len(p.Faults) != 1 || seen[text] && p.Seed == 1 {
			t.Errorf("run %d tried %q", n, text)
		}
		if len(p.Faults) > 1 {
			continue
		}
		seen[text] = true
		if err := p.Faults[0].Check(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, object := range []string{"default/p0", "default/p1", "default/p2"} {
		for _, kind := range []string{"lag", "crash-after", "crash-before", "lost-answer", "conflict", "relist", "late-answer"} {
			want := fmt.Sprintf("%s actor=a", kind)
			if !slices.ContainsFunc(w.played, func(p sim.Plan) bool {
				return len(p.Faults) == 1 && strings.HasPrefix(p.Faults[0].String(), want) && p.Faults[0].Object == object
			}) {
				t.Errorf("%s at %s was not tried alone", kind, object)
			}
		}
	}
	for _, p := range w.played {
		for _, f := range p.Faults {
			if f.Kind.Level() != fault.Legal {
				t.Errorf("%s is not legal", f)
			}
		}
	}
	if unseen := r.Unseen(); len(unseen) != 0 || !r.Seen["something"] {
		t.Errorf("unseen %q", unseen)
	}
	tried := map[string]bool{}
	for _, p := range w.played[:500] {
		texts := fault.Strings(p.Faults)
		slices.Sort(texts)
		text := fmt.Sprint(p.Seed, texts)
		if tried[text] {
			t.Fatalf("tried twice: %s", text)
		}
		tried[text] = true
	}
}

// TestPatterns: the search tries only faults that match the patterns.
func TestPatterns(t *testing.T) {
	w := &toy{}
	search(t, w, sim.Options{Runs: 60, Patterns: []fault.Fault{fault.Lag("pods"), fault.Of(fault.KindLoseEvent)}})
	kinds := map[fault.Kind]bool{}
	for _, p := range w.played {
		for _, f := range p.Faults {
			kinds[f.Kind] = true
		}
	}
	if len(kinds) != 2 || !kinds[fault.KindLag] || !kinds[fault.KindLoseEvent] {
		t.Errorf("tried %v", kinds)
	}
	w = &toy{}
	if r := search(t, w, sim.Options{Runs: 60, Patterns: []fault.Fault{}}); r.Runs != 3 {
		t.Errorf("with no fault allowed there were %d runs", r.Runs)
	}
}

// TestFound: a failure that needs one fault is found, confirmed, and reported with the nearest passing run.
func TestFound(t *testing.T) {
	w := &toy{breaks: func(p sim.Plan) bool { return has(p, fault.KindConflict, "default/p1") }}
	r := search(t, w, sim.Options{Runs: 500})
	f := r.Failure
	if f == nil || len(f.Plan.Faults) != 1 || f.Plan.Faults[0].Kind != fault.KindConflict || f.Grade() != "3/3 identical" {
		t.Fatalf("%+v", f)
	}
	if f.Nearest == nil || f.Nearest.Failure != nil {
		t.Error("no nearest run")
	}
	if f.Plan.Expect != nil || f.Plan.Exempt != nil {
		t.Error("the plan keeps what belongs to the search")
	}
}

// TestShrunk: faults that are not needed are removed, and delays are shortened.
func TestShrunk(t *testing.T) {
	w := &toy{breaks: func(p sim.Plan) bool {
		return has(p, fault.KindLag, "default/p0") && has(p, fault.KindCrashAfter, "default/p2")
	}}
	big, err := fault.ParseAll([]string{
		"lag actor=a resource=pods object=default/p0 nth=1 for=6m",
		"error actor=a nth=1",
		"crash-after actor=a verb=update resource=pods/status object=default/p2 nth=1",
		"relist actor=a resource=pods object=default/p1 nth=1",
		"late-answer actor=a nth=2 for=20s",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := search(t, w, sim.Options{Runs: 500, First: []sim.Plan{{Seed: 1, Faults: big}}})
	f := r.Failure
	if f == nil || f.FoundAfter != 4 || f.FoundFaults != 5 {
		t.Fatalf("%+v", f)
	}
	got := strings.Join(fault.Strings(f.Plan.Faults), "\n")
	want := "lag actor=a resource=pods object=default/p0 nth=1\ncrash-after actor=a verb=update resource=pods/status object=default/p2 nth=1"
	if got != want {
		t.Errorf("made small to\n%s", got)
	}
}

// TestSeveral: the search also finds a failure that needs two faults.
func TestSeveral(t *testing.T) {
	w := &toy{breaks: func(p sim.Plan) bool {
		return has(p, fault.KindLag, "") && has(p, fault.KindCrashAfter, "")
	}}
	r := search(t, w, sim.Options{Runs: 2000})
	if r.Failure == nil || len(r.Failure.Plan.Faults) != 2 || r.Random == 0 {
		t.Fatalf("%+v", r)
	}
}

// TestNoFaultNeeded: the first run finds a controller that fails without faults.
func TestNoFaultNeeded(t *testing.T) {
	r := search(t, &toy{breaks: func(sim.Plan) bool { return true }}, sim.Options{})
	if r.Failure == nil || r.Runs != 1 || len(r.Failure.Plan.Faults) != 0 {
		t.Fatalf("%+v", r)
	}
}

// TestDrift: the first run is repeated at the end.
func TestDrift(t *testing.T) {
	if r := search(t, &toy{}, sim.Options{Runs: 20}); r.Drift != nil {
		t.Errorf("drift %+v", r.Drift)
	}
	if r := search(t, &toy{odd: true}, sim.Options{Runs: 20}); r.Drift == nil || r.Drift.Same || r.Drift.Step != 1 {
		t.Errorf("drift %+v", r.Drift)
	}
}

// TestDriftOfRareOrder: a controller that ranges over a Go map of two keys begins with the second key in one of eight runs, so
// the first run may be the rare one. Only a process that never behaves like its first run again keeps state.
func TestDriftOfRareOrder(t *testing.T) {
	for name, c := range map[string]struct {
		rare func(run int) bool
		same bool
	}{
		"a rare order": {rare: func(run int) bool { return run == 1 || run == 20+50 }},
		"state":        {rare: func(run int) bool { return run <= 3 }, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			if r := search(t, &toy{rare: c.rare}, sim.Options{Runs: 20}); r.Drift == nil || r.Drift.Same != c.same || r.Drift.Step != 1 {
				t.Errorf("drift %+v", r.Drift)
			}
		})
	}
}

// TestBudget: a search ends when its budget is used up, by the clock of the caller.
func TestBudget(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time {
		now = now.Add(time.Second) // per call: at the start, before each run, at the end
		return now
	}
	r := search(t, &toy{}, sim.Options{Runs: 1 << 30, Budget: 10 * time.Second, Now: clock})
	if r.Runs != 10 || r.Stopped != "its budget of 10s ran out" || r.Elapsed != 12*time.Second {
		t.Errorf("%d runs in %s, %q", r.Runs, r.Elapsed, r.Stopped)
	}
	if r := search(t, &toy{}, sim.Options{Runs: 7}); r.Elapsed != 0 {
		t.Errorf("%s without a clock", r.Elapsed)
	}
	if _, err := sim.Search(t.Context(), &toy{}, sim.Options{Budget: time.Second}); err == nil {
		t.Error("a budget without a clock is accepted")
	}
}

// TestLimits: runs, interruption, and a world that cannot be built.
func TestLimits(t *testing.T) {
	if r := search(t, &toy{}, sim.Options{Runs: 7}); r.Runs != 7 || r.Stopped != "" {
		t.Errorf("%d runs, %q", r.Runs, r.Stopped)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := sim.Search(ctx, &toy{}, sim.Options{})
	if err != nil || r.Stopped != "interrupted" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := sim.Search(t.Context(), &toy{err: errors.New("no world")}, sim.Options{}); err == nil || err.Error() != "no world" {
		t.Errorf("error %v", err)
	}
}

// TestEndState: a run that ends in another state than those without faults fails, unless another user deleted
// something.
func TestEndState(t *testing.T) {
	count := func(n int) verdict.State {
		return verdict.NewState([]verdict.Object{{Resource: "configmaps", Content: map[string]any{
			"metadata": map[string]any{"name": "c", "namespace": "default"}, "data": map[string]any{"n": fmt.Sprint(n)},
		}}})
	}
	for _, kind := range []fault.Kind{fault.KindLostAnswer, fault.KindEvict} {
		w := &toy{state: func(p sim.Plan) verdict.State {
			if has(p, kind, "") {
				return count(2)
			}
			return count(1)
		}}
		r := search(t, w, sim.Options{Runs: 300})
		if kind == fault.KindEvict {
			if r.Failure != nil {
				t.Errorf("%s: %+v", kind, r.Failure.Run.Failure)
			}
			continue
		}
		if r.Failure == nil || r.Failure.Run.Failure.Message != `configmaps default/c: data.n is "2"; without faults "1"` {
			t.Errorf("%s: %+v", kind, r.Failure)
		}
	}
}

// TestLaterState: a state that a run without faults reaches after its end is no failure, and one that it does not reach
// is one. The run without faults is observed once, and only if a run ends in another state.
func TestLaterState(t *testing.T) {
	state := func(a, b string) verdict.State {
		return verdict.NewState([]verdict.Object{{Resource: "configmaps", Content: map[string]any{
			"metadata": map[string]any{"name": "c", "namespace": "default"}, "data": map[string]any{"a": a, "b": b},
		}}})
	}
	for name, c := range map[string]struct {
		faulty   verdict.State
		message  string
		observed int
	}{
		"the same state":  {state("1", "1"), "", 0},
		"a later state":   {state("2", "1"), "", 1},
		"another one":     {state("2", "2"), `configmaps default/c: data.b is "2"; without faults "1"`, 1},
		"neither of both": {state("3", "1"), "", 1},
	} {
		w := &toy{
			state: func(p sim.Plan) verdict.State {
				if len(p.Faults) > 0 {
					return c.faulty
				}
				return state("1", "1")
			},
			later: func(sim.Plan) verdict.State { return state("2", "1") },
		}
		r := search(t, w, sim.Options{Runs: 40})
		got := ""
		if r.Failure != nil {
			got = r.Failure.Run.Failure.Message
		}
		observed := 0
		for _, p := range w.played {
			if p.Observe {
				observed++
			}
		}
		if got != c.message || observed != c.observed {
			t.Errorf("%s: %q, observed %d times", name, got, observed)
		}
		if want := c.observed; len(r.NotCompared) != want || want > 0 && r.NotCompared[0] != "configmaps data.a" {
			t.Errorf("%s: not compared: %q", name, r.NotCompared)
		}
		if c.observed == 0 {
			continue
		}
		outs, err := sim.Replay(t.Context(), w, sim.Options{}, sim.Plan{Faults: []fault.Fault{fault.Of(fault.KindConflict)}}, 1)
		if err != nil || (outs[0].Run.Failure == nil) != (c.message == "") {
			t.Errorf("%s, replayed: %+v, %v", name, outs, err)
		}
	}
}

// idle is a world whose runs say nothing about the controller.
type idle struct{ sim.World }

func (w idle) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	out, err := w.World.Play(ctx, p)
	if err == nil && p.Learn {
		out.Run.Inconclusive = "client a wrote nothing"
	}
	return out, err
}

// TestReplayInconclusive: a run without faults that says nothing about the controller is no result, with and without faults in the recorded run.
func TestReplayInconclusive(t *testing.T) {
	for _, faults := range [][]fault.Fault{nil, {fault.Of(fault.KindConflict)}} {
		outs, err := sim.Replay(t.Context(), idle{&toy{breaks: func(sim.Plan) bool { return false }}}, sim.Options{Seed: 1}, sim.Plan{Seed: 5, Faults: faults}, 2)
		if err == nil || err.Error() != "client a wrote nothing" {
			t.Errorf("%v: %d outcomes, %v", faults, len(outs), err)
		}
	}
	// A failure that is seen is a result.
	outs, err := sim.Replay(t.Context(), idle{&toy{breaks: func(sim.Plan) bool { return true }}}, sim.Options{Seed: 1}, sim.Plan{Seed: 5}, 2)
	if err != nil || outs[0].Run.Failure == nil {
		t.Errorf("%v", err)
	}
}

// TestReplay: a replay checks a plan as the search did.
func TestReplay(t *testing.T) {
	w := &toy{breaks: func(p sim.Plan) bool { return has(p, fault.KindConflict, "") }}
	outs, err := sim.Replay(t.Context(), w, sim.Options{Seed: 1}, sim.Plan{Seed: 5, Faults: []fault.Fault{fault.Of(fault.KindConflict)}}, 2)
	if err != nil || len(outs) != 2 || outs[1].Run.Failure == nil || len(w.played) != 5 || w.played[4].Seed != 5 {
		t.Errorf("%+v, %v, %d runs", outs, err, len(w.played))
	}
	w = &toy{breaks: func(p sim.Plan) bool { return true }}
	if _, err := sim.Replay(t.Context(), w, sim.Options{Seed: 1}, sim.Plan{Faults: []fault.Fault{fault.Of(fault.KindConflict)}}, 1); err == nil || !strings.Contains(err.Error(), "without faults fails already") {
		t.Errorf("error %v", err)
	}
}
