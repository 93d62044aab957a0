package test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// runKeeper writes passing runs to files for --keep-runs.
type runKeeper struct {
	// dir is the directory of the scenario, "" if no run is kept. command is recorded for replays.
	dir     string
	command []string
	hashes  map[history.Hash]bool
	// err is the first error; no run is written after it.
	err error
}

// newRunKeeper returns the keeper for one scenario.
func newRunKeeper(o *testOptions, scenario string, command []string) *runKeeper {
	k := &runKeeper{hashes: map[history.Hash]bool{}, command: command}
	if o.keepRuns != "" {
		k.dir = filepath.Join(o.keepRuns, scenario)
	}
	if o.target.given() {
		k.command = history.ConcealArguments(command)
	}
	return k
}

// ran writes a run that passed, if it differs from all earlier ones. It is called after each run.
func (k *runKeeper) ran(so *sim.Result, last *sim.Outcome) {
	run := last.Run
	if k.dir == "" || k.err != nil || run.Failure != nil || run.Inconclusive != "" || k.hashes[run.Hash()] {
		return
	}
	if k.err = os.MkdirAll(k.dir, 0o700); k.err != nil {
		return
	}
	run.Command = k.command
	if k.err = report.WriteFile(filepath.Join(k.dir, keptName(so.Runs, run.Hash())), run); k.err == nil {
		k.hashes[run.Hash()] = true
	}
}

// keptName is the name of the file of a passing run: its number and its hash.
func keptName(run int, hash history.Hash) string { return fmt.Sprintf("%05d-%s.jsonl", run, hash) }
