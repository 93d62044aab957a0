package sim

import (
	"context"
	"fmt"
)

// Replay plays one plan again, judged as the search that found it judged it: by the
// runs without faults, which begin with the search's seed.
func Replay(ctx context.Context, world World, seed uint64, p Plan) (*Outcome, error) {
	s := &search{world: world}
	if len(p.Faults) > 0 {
		var states []State
		for n := range baselines {
			out, err := s.play(ctx, Plan{Seed: baselineSeed(seed, n), Learn: true})
			if err != nil {
				return nil, err
			}
			if f := out.Run.Failure; f != nil {
				return nil, fmt.Errorf("the run without faults fails already: %s: %s", f.Oracle, f.Message)
			}
			states = s.learn(states, out)
		}
		s.expect = Learn(states)
	}
	p.Learn = len(p.Faults) == 0
	return s.play(ctx, p)
}

// baselineSeed is the seed of the nth run without faults.
func baselineSeed(seed uint64, n int) uint64 { return seed + uint64(n) }
