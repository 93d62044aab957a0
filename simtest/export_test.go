package simtest

import (
	"context"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// Play executes one plan of a test, for tests that check single runs.
func Play(t testing.TB, o Options, plan sim.Plan, test func(*World)) *sim.Outcome {
	t.Helper()
	p, err := newPlayer(t, o, test)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Play(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// OneByOne exports oneByOne, which the parts of a manager call before they continue.
func OneByOne(ctx context.Context, w *World, key string) { w.oneByOne(ctx, key) }
