package sim_test

import (
	"context"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// detailed is a toy that records objects where the plan asks for them.
type detailed struct {
	toy
	fickle bool // and whose run then differs
}

func (w *detailed) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	out, err := w.toy.Play(ctx, p)
	if err == nil && p.Objects {
		s := history.Step{Kind: history.Time}
		if w.fickle {
			out.Run.Add(s)
		}
		out.Run.Steps[1].Changes = []history.Change{{Gone: true}}
	}
	return out, err
}

// TestIllustrated: only the reported failure and its nearest passing run contain objects, and only if the
// runs with objects have the same steps.
func TestIllustrated(t *testing.T) {
	for _, fickle := range []bool{false, true} {
		w := &detailed{toy: toy{breaks: func(p sim.Plan) bool { return has(p, fault.KindLag, "default/p1") }}, fickle: fickle}
		r, err := sim.Search(t.Context(), w, sim.Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		f := r.Failure
		if f == nil || f.Nearest == nil {
			t.Fatalf("%+v", r)
		}
		if has := len(f.Run.Steps[1].Changes) > 0; has == fickle {
			t.Errorf("fickle %v: the failure has objects: %v", fickle, has)
		}
		if has := len(f.Nearest.Steps[1].Changes) > 0; has == fickle {
			t.Errorf("fickle %v: the nearest run has objects: %v", fickle, has)
		}
		if f.Plan.Objects || f.Run.Failure == nil || f.Nearest.Failure != nil {
			t.Errorf("fickle %v: %+v", fickle, f)
		}
		asked := 0
		for _, p := range w.played {
			if p.Objects {
				asked++
			}
		}
		if asked != 2 {
			t.Errorf("fickle %v: %d of %d runs were to have objects", fickle, asked, len(w.played))
		}
	}
}
