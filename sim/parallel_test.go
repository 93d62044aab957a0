package sim_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/sim"
)

// crowd is a toy that several may play at a time.
type crowd struct {
	mu        sync.Mutex
	toy       toy
	now, most int
}

func (w *crowd) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	w.mu.Lock()
	w.now++
	w.most = max(w.most, w.now)
	out, err := w.toy.Play(ctx, p)
	w.mu.Unlock()
	runtime.Gosched()
	w.mu.Lock()
	w.now--
	w.mu.Unlock()
	return out, err
}

// TestParallel: a search that plays several runs at once finds what one after another
// would find, makes it as small, and makes no more runs than it may.
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
	held := &crowd{}
	r, err := sim.Search(t.Context(), held, sim.Options{Seed: 1, Runs: 57, Live: true, Parallel: 4})
	if err != nil {
		t.Fatal(err)
	}
	if r.Runs != 57 || r.Failure != nil {
		t.Errorf("%d runs, failure %+v", r.Runs, r.Failure)
	}
	if held.most > 4 {
		t.Errorf("%d runs at a time", held.most)
	}
}
