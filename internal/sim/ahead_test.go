package sim_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// serving returns a remote world whose plans another goroutine plays with w.
func serving(t *testing.T, w sim.World) *sim.Remote {
	t.Helper()
	plans, send := io.Pipe()
	receive, answers := io.Pipe()
	remote := sim.NewRemote(send)
	var ends sync.WaitGroup
	ends.Go(func() {
		err := sim.Serve(context.Background(), w, plans, answers, func() {})
		_ = answers.CloseWithError(err)
		_ = plans.CloseWithError(errors.New("the test has ended"))
	})
	ends.Go(func() { remote.Receive(receive) })
	t.Cleanup(func() {
		_ = remote.End()
		ends.Wait()
	})
	return remote
}

// texts are the plans of runs in the order in which a search accounts them.
func texts(t *testing.T, world sim.World, o sim.Options) (all []string, r *sim.Result) {
	t.Helper()
	o.Progress = func(_ *sim.Result, last *sim.Outcome) {
		all = append(all, strings.Join(fault.Strings(last.Plan.Faults), "; ")+" "+last.Plan.Schedule.String())
	}
	r, err := sim.Search(t.Context(), world, o)
	if err != nil {
		t.Fatal(err)
	}
	return all, r
}

// gate is a world that waits before each run with faults.
type gate struct {
	sim.World
	wait func()
}

func (w *gate) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	if len(p.Faults) > 0 {
		w.wait()
	}
	return w.World.Play(ctx, p)
}

// TestOthers: a search with further worlds plays as many runs as allowed, no plan twice, and its plans and results do not depend on which
// of the worlds is faster.
func TestOthers(t *testing.T) {
	var firstTexts []string
	var first *sim.Result
	for _, slow := range []string{"neither", "first", "other"} {
		own, other := &toy{choices: 4}, &toy{choices: 4}
		var a, b sim.World = own, other
		started := make(chan struct{}) // the other world has played two runs
		switch slow {
		case "first":
			a = &gate{own, func() { <-started }}
			var once sync.Once
			n := 0
			b = &gate{other, func() {
				if n++; n == 2 {
					once.Do(func() { close(started) })
				}
			}}
		case "other":
			b = &gate{other, func() { <-started }}
			n := 0
			a = &gate{own, func() {
				if n++; n == 2 {
					close(started)
				}
			}}
		}
		plans, r := texts(t, a, sim.Options{Seed: 1, Runs: 150, Others: []sim.World{serving(t, b)}})
		if r.Runs != 150 || r.Failure != nil || r.Schedules == 0 || r.Pairs == 0 {
			t.Fatalf("%s: %+v", slow, r)
		}
		for n, text := range plans[3:] { // those before are the runs of the baseline
			if slices.Contains(plans[3:3+n], text) {
				t.Errorf("%s: the search tried %q twice", slow, text)
			}
		}
		if played := len(own.played) + len(other.played); len(other.played) < 2 || played != 150+1 { // and the first run again
			t.Errorf("%s: %d of %d runs were played by the other world", slow, len(other.played), played)
		}
		r.Baseline = nil
		if first == nil {
			firstTexts, first = plans, r
		} else if !slices.Equal(plans, firstTexts) || !reflect.DeepEqual(r.Coverage, first.Coverage) || r.Tried() != first.Tried() || r.Distinct != first.Distinct {
			t.Errorf("%s: the search differs: %s, and %s before", slow, r.Tried(), first.Tried())
		}
	}
}

// TestOthersFind: a failure that another world finds is repeated and shrunk by the first one, and is the one that a search with
// one world finds.
func TestOthersFind(t *testing.T) {
	breaks := func(p sim.Plan) bool { return has(p, fault.KindLag, "default/p1") }
	alone := search(t, &toy{breaks: breaks}, sim.Options{Seed: 1})
	own := &toy{breaks: breaks}
	var others []sim.World
	for range 3 {
		others = append(others, serving(t, &toy{breaks: breaks}))
	}
	r := search(t, own, sim.Options{Seed: 1, Others: others})
	if len(r.Failures) != 1 {
		t.Fatalf("%+v", r)
	}
	if got, want := fault.Strings(r.Failure.Plan.Faults), fault.Strings(alone.Failure.Plan.Faults); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.Failure.Grade() != "3/3 identical" || r.Failure.Nearest == nil || r.Failure.FoundAfter > r.Runs {
		t.Errorf("%s, run %d of %d", r.Failure.Grade(), r.Failure.FoundAfter, r.Runs)
	}
	repeats := 0
	for _, p := range own.played {
		if breaks(p) {
			repeats++
		}
	}
	if repeats < 3 {
		t.Errorf("the first world has played the failure %d times", repeats)
	}
}

// TestOthersCompare: another world compares final states with those of the runs without faults. What a run without
// faults reaches later is no difference there either, from then on.
func TestOthersCompare(t *testing.T) {
	with := func(image string) verdict.State {
		return verdict.NewState([]verdict.Object{{Resource: "pods", Content: map[string]any{
			"metadata": map[string]any{"name": "p", "namespace": "default"}, "status": map[string]any{"image": image},
		}}})
	}
	state := func(p sim.Plan) verdict.State {
		switch {
		case has(p, fault.KindCrashAfter, "default/p1"):
			return with("bad")
		case has(p, fault.KindLag, ""):
			return with("late")
		}
		return with("good")
	}
	for later, wants := range map[string]int{"good": 1, "late": 0} {
		played := make(chan struct{})
		var differs []bool // for each run of the other world
		own := &toy{state: state, later: func(sim.Plan) verdict.State { return with(later) }}
		other := &toy{state: func(p sim.Plan) verdict.State {
			if len(differs) == 0 {
				close(played)
			}
			differs = append(differs, p.Expect(with("bad")) != nil)
			return state(p)
		}}
		r := search(t, &gate{own, func() { <-played }}, sim.Options{Seed: 1, Runs: 60, Others: []sim.World{serving(t, other)}})
		if len(r.Failures) != wants {
			t.Errorf("later %s: %d failures: %s", later, len(r.Failures), r.Tried())
		}
		if wants > 0 && r.Failure.Run.Failure.Oracle != verdict.BaselineOracle {
			t.Errorf("%+v", r.Failure.Run.Failure)
		}
		if !differs[0] || later == "late" && differs[len(differs)-1] {
			t.Errorf("later %s: the other world found differences: %v", later, differs)
		}
	}
}

// crashing is a world whose process ends in the nth run.
type crashing struct {
	toy
	n   int
	end func()
}

func (w *crashing) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	if w.n--; w.n == 0 {
		w.end()
	}
	return w.toy.Play(ctx, p)
}

// TestOthersDisconnect: a search ends with an error that names the run if the process of another world ends.
func TestOthersDisconnect(t *testing.T) {
	plans, send := io.Pipe()
	receive, answers := io.Pipe()
	remote := sim.NewRemote(send)
	w := &crashing{n: 2, end: func() { _ = answers.Close(); _ = plans.Close() }}
	go func() { _ = sim.Serve(context.Background(), w, plans, answers, func() {}) }()
	go remote.Receive(receive)
	<-remote.Ready()
	_, err := sim.Search(t.Context(), &toy{}, sim.Options{Seed: 1, Runs: 1000, Others: []sim.World{remote}})
	if !errors.Is(err, sim.ErrDisconnected) || !strings.Contains(err.Error(), "during a run with seed 1 and the faults [\"") || remote.Played() != 1 {
		t.Errorf("%v, after %d runs", err, remote.Played())
	}
	if _, err := remote.Play(t.Context(), sim.Plan{}); !errors.Is(err, sim.ErrDisconnected) {
		t.Errorf("a plan for a process that has ended: %v", err)
	}
}

// TestOthersError: an error of another world is the error of the search.
func TestOthersError(t *testing.T) {
	other := serving(t, &toy{err: errors.New("no disk")})
	_, err := sim.Search(t.Context(), &toy{}, sim.Options{Seed: 1, Runs: 1000, Others: []sim.World{other}})
	if err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Error(err)
	}
}

// TestRemoteRun: a run that another process has played is complete.
func TestRemoteRun(t *testing.T) {
	breaks := func(sim.Plan) bool { return true }
	p := sim.Plan{Seed: 7, Faults: []fault.Fault{{Kind: fault.KindLag, Actor: "a", Resource: "pods", Nth: 2}, {Kind: fault.KindConflict, Nth: 9}}, Schedule: history.Schedule{Seed: 3, Depth: 2, Choices: 5}}
	want, err := (&toy{breaks: breaks}).Play(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := serving(t, &toy{breaks: breaks}).Play(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
