package sim_test

import (
	"context"
	"sync"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// crowd is a toy that may run several plans in parallel.
type crowd struct {
	mu        sync.Mutex
	toy       toy
	now, most int
	// until, if it is not 0, keeps runs with faults from ending before that many are in progress.
	until int
	full  chan struct{}
}

func (w *crowd) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	w.mu.Lock()
	w.now++
	w.most = max(w.most, w.now)
	if w.until > 0 && w.now == w.until {
		w.until = 0
		close(w.full)
	}
	out, err := w.toy.Play(ctx, p)
	w.mu.Unlock()
	if w.full != nil && len(p.Faults) > 0 {
		<-w.full
	}
	w.mu.Lock()
	w.now--
	w.mu.Unlock()
	return out, err
}

// TestParallelLimit: as many runs are in progress at a time as Parallel allows. No run ends before that many
// have started.
func TestParallelLimit(t *testing.T) {
	w := &crowd{until: 4, full: make(chan struct{})}
	r, err := sim.Search(t.Context(), w, sim.Options{Seed: 1, Runs: 40, Live: true, Parallel: 4})
	if err != nil || r.Failure != nil || r.Runs != 40 {
		t.Fatalf("%+v, %v", r, err)
	}
	if w.most != 4 {
		t.Errorf("%d runs at a time", w.most)
	}
}

// TestParallel: a parallel search finds the same failure as a sequential one, shrinks it to the same size,
// and plays no more runs than allowed.
func TestParallel(t *testing.T) {
	breaks := func(p sim.Plan) bool { return has(p, fault.KindLag, "default/p1") }
	alone, err := sim.Search(t.Context(), &toy{breaks: breaks}, sim.Options{Seed: 1, Live: true})
	if err != nil {
		t.Fatal(err)
	}
	together, err := sim.Search(t.Context(), &crowd{toy: toy{breaks: breaks}}, sim.Options{Seed: 1, Live: true, Parallel: 4})
	if err != nil {
		t.Fatal(err)
	}
	if alone.Failure == nil || together.Failure == nil {
		t.Fatalf("alone %+v, together %+v", alone.Failure, together.Failure)
	}
	if a, b := fault.Strings(alone.Failure.Plan.Faults), fault.Strings(together.Failure.Plan.Faults); len(a) != 1 || len(b) != 1 || a[0] != b[0] {
		t.Errorf("alone %q, together %q", a, b)
	}
	if got := together.Failure.Grade(); got != "reproduced 3 of 3" {
		t.Error(got)
	}
	limited := &crowd{}
	r, err := sim.Search(t.Context(), limited, sim.Options{Seed: 1, Runs: 57, Live: true, Parallel: 4})
	if err != nil {
		t.Fatal(err)
	}
	if r.Runs != 57 || r.Failure != nil {
		t.Errorf("%d runs, failure %+v", r.Runs, r.Failure)
	}
	if limited.most > 4 {
		t.Errorf("%d runs at a time", limited.most)
	}
}
