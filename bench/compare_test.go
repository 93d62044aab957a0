package main

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestCompareReport: each group divides the two phases of its own sides, and more is better for rehearse.
func TestCompareReport(t *testing.T) {
	cost := func(speed float64) []phaseCost {
		return []phaseCost{{perSecond: speed, cpu: 60 / speed, memory: int64(6000 / speed)}, {perSecond: 10 * speed, cpu: 600 / speed}}
	}
	r := round{oursAll: cost(4), theirsAll: cost(1), oursPlain: cost(6), theirsPlain: cost(2)}
	var out figures
	compared{load: load{out: &out}}.report([]round{r, r})
	want := map[string]float64{"Controllers in both": 4, "No controllers in both": 3, "Controllers only in rehearse": 2}
	for _, got := range out.ratios {
		if want := []float64{want[got.group], want[got.group]}; !slices.Equal(got.rounds, want) {
			t.Errorf("%s, %s: %v, want %v", got.group, got.name, got.rounds, want)
		}
	}
	if len(out.ratios) != 15 {
		t.Errorf("%d ratios, want 15", len(out.ratios))
	}
}

// TestCompareRejectsControllers: a flag that would make the sides unequal is an error before anything is built.
func TestCompareRejectsControllers(t *testing.T) {
	for _, args := range [][]string{{"--controllers=stage"}, {"--port", "0", "--controllers", "stage"}} {
		c := compared{load: load{args: args}, rounds: 1}
		if err := c.run(context.Background(), new("")); err == nil || !strings.Contains(err.Error(), "--controllers") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
