package simtest

import (
	"context"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// Play plays one plan of a story, for tests that look at single runs.
func Play(t testing.TB, o Options, plan sim.Plan, story func(*World)) *sim.Outcome {
	t.Helper()
	p, err := newPlayer(t, o, story)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Play(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// OneByOne is what the parts of a manager wait with before they go on.
func OneByOne(ctx context.Context, w *World, key string) { w.oneByOne(ctx, key) }
