package sim

import (
	"context"
	"fmt"
	"slices"
)

// Replay plays one plan again, so many times, judged as the search that found it judged
// it: by the runs without faults, which begin with the seed of the options. Of those
// Seed, Live and Parallel count.
func Replay(ctx context.Context, world World, o Options, p Plan, times int) ([]*Outcome, error) {
	s := &search{world: world, options: o}
	if len(p.Faults) > 0 {
		var states []State
		for n := range baselines {
			out, err := s.play(ctx, Plan{Seed: baselineSeed(o.Seed, n), Learn: true})
			if err != nil {
				return nil, err
			}
			if f := out.Run.Failure; f != nil {
				return nil, &BaselineError{out}
			}
			states = s.learn(states, out)
		}
		s.expect = Learn(states)
	}
	p.Learn = len(p.Faults) == 0
	return s.playAll(ctx, slices.Repeat([]Plan{p}, times))
}

// BaselineError says that a run fails without any fault: then what a fault does cannot be
// told.
type BaselineError struct{ Outcome *Outcome }

func (e *BaselineError) Error() string {
	f := e.Outcome.Run.Failure
	return fmt.Sprintf("the run without faults fails already: %s: %s", f.Oracle, f.Message)
}

// baselineSeed is the seed of the nth run without faults.
func baselineSeed(seed uint64, n int) uint64 { return seed + uint64(n) }
