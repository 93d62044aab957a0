package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// Replay plays one plan several times and compares each run with the runs without faults, as the search did.
// Of the options, it uses Seed, Live, Parallel and Compare. A run without faults that says nothing about the clients is an error.
func Replay(ctx context.Context, world World, o Options, p Plan, times int) ([]*Outcome, error) {
	s := &search{world: world, options: o, result: &Result{}}
	p.Learn = len(p.Faults) == 0 && p.Schedule.IsZero() && !o.Compare
	if !p.Learn {
		for n := range baselines {
			out, err := s.play(ctx, Plan{Seed: baselineSeed(o.Seed, n), Learn: true, Vary: n > 0})
			if err != nil {
				return nil, err
			}
			if f := out.Run.Failure; f != nil {
				return nil, &BaselineError{out}
			}
			if reason := out.Run.Inconclusive; reason != "" {
				return nil, errors.New(reason)
			}
			s.learn(out)
		}
		s.learned()
	}
	outs, err := s.playAll(ctx, slices.Repeat([]Plan{p}, times))
	for _, out := range outs {
		if err != nil {
			break
		}
		var later bool
		if later, err = s.reachesLater(ctx, out); later {
			out.Run.Failure = nil
		}
	}
	if err != nil || slices.ContainsFunc(outs, func(out *Outcome) bool { return out.Run.Failure != nil }) {
		return outs, err
	}
	for _, out := range outs {
		if reason := out.Run.Inconclusive; reason != "" {
			return outs, errors.New(reason)
		}
	}
	return outs, nil
}

// NeedsBaseline reports whether a recorded failure is a difference from runs without faults, so that its replay
// needs Options.Compare.
func NeedsBaseline(recorded *history.Run) bool {
	return recorded.Failure != nil && recorded.Failure.Oracle == verdict.BaselineOracle
}

// BaselineError reports that a run fails without any fault, so that the effect of a fault cannot be
// judged.
type BaselineError struct{ Outcome *Outcome }

func (e *BaselineError) Error() string {
	f := e.Outcome.Run.Failure
	return fmt.Sprintf("the run without faults fails already: %s: %s", f.Oracle, f.Message)
}

// baselineSeed is the seed of the nth run without faults.
func baselineSeed(seed uint64, n int) uint64 { return seed + uint64(n) }
