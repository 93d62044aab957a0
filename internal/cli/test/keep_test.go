package test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// runOf returns a run with one step of an actor.
func runOf(actor string) *history.Run {
	r := &history.Run{Header: history.Header{Format: history.Format, Test: "s.yaml", Live: true}}
	r.Add(history.Step{Kind: history.Start, Actor: actor})
	return r
}

// TestKeepRuns: each passing run is written once, with its command; failed and inconclusive ones are not.
func TestKeepRuns(t *testing.T) {
	dir := t.TempDir()
	k := newRunKeeper(&testOptions{keepRuns: dir}, "s", []string{"./c", "--x"})
	failed, inconclusive := runOf("f"), runOf("i")
	failed.Failure, inconclusive.Inconclusive = &history.Failure{Oracle: "x"}, "no reason"
	for n, run := range []*history.Run{runOf("a"), runOf("b"), runOf("a"), failed, inconclusive, runOf("c")} {
		k.ran(&sim.Result{Runs: n + 1}, &sim.Outcome{Run: run})
	}
	if k.err != nil || len(k.hashes) != 3 {
		t.Fatalf("%d runs, %v", len(k.hashes), k.err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "s"))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name()[:6])
	}
	if want := []string{"00001-", "00002-", "00006-"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v %q, want %q", err, names, want)
	}
	f, err := os.Open(filepath.Join(dir, "s", entries[2].Name()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := history.Read(f)
	if err != nil || run.Steps[0].Actor != "c" || !slices.Equal(run.Command, []string{"./c", "--x"}) {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestKeepRunsErrors: without a directory nothing is written; the first error ends the writing and is kept.
func TestKeepRunsErrors(t *testing.T) {
	none := newRunKeeper(&testOptions{}, "s", nil)
	none.ran(&sim.Result{Runs: 1}, &sim.Outcome{Run: runOf("a")})
	if none.err != nil || len(none.hashes) != 0 {
		t.Errorf("%+v", none)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := newRunKeeper(&testOptions{keepRuns: file}, "s", nil)
	for n := range 2 {
		k.ran(&sim.Result{Runs: n + 1}, &sim.Outcome{Run: runOf("a")})
	}
	if k.err == nil || len(k.hashes) != 0 {
		t.Errorf("%+v", k)
	}
}
