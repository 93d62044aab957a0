package simtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// Failed runs are stored next to the test and are the first runs of the next search, like the
// failing inputs of Go's fuzzing. They belong in version control.

// directory is where the failed runs of the test are stored.
func (p *player) directory() string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' {
			return '_'
		}
		return r
	}, p.t.Name())
	return filepath.Join("testdata", "simtest", name)
}

// keep stores a failed run, and next to it the coverage of the search, and the nearest passing run if nearest is not nil. It
// returns the file of the failed run.
func (p *player) keep(run, nearest *history.Run, covered []coverage.Row) (string, error) {
	dir := p.directory()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, run.Hash().String()+".jsonl")
	if err := report.WriteFile(file, run); err != nil {
		return "", err
	}
	if err := report.WriteCoverage(report.CoverageFile(file), covered); err != nil {
		return file, err
	}
	if nearest == nil {
		return file, nil
	}
	return file, report.WriteFile(report.NearestFile(file), nearest)
}

// storedPlans returns the plans of the stored runs. It reports a file that cannot be read as an
// error of the test, and does not change it.
func (p *player) storedPlans(t testing.TB) (plans []sim.Plan) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.directory(), "*.jsonl"))
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		if report.IsNearestFile(file) {
			continue
		}
		run, err := readRun(file)
		var plan sim.Plan
		if err == nil {
			plan, err = planOf(run)
		}
		if err != nil {
			t.Errorf("%v\nDelete the file if it is of no use any more.", err)
			continue
		}
		plans = append(plans, plan)
	}
	return plans
}

func readRun(file string) (*history.Run, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; paths are relative to the directory of the package", file)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	run, err := history.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return run, nil
}

func planOf(run *history.Run) (sim.Plan, error) {
	faults, err := fault.ParseAll(run.Faults)
	return sim.Plan{Seed: run.Seed, Schedule: run.Schedule, Faults: faults}, err
}
