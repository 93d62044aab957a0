package sim

import (
	"context"

	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// reachesLater reports whether a run failed only because it ended in a state that runs without faults reach later: after
// a resync, or when a slow controller has acted. Before the first such failure is reported, a run without faults is
// observed for longer, and what changes in it is not compared.
func (s *search) reachesLater(ctx context.Context, out *Outcome) (bool, error) {
	if f := out.Run.Failure; f == nil || f.Oracle != verdict.BaselineOracle || out.State == nil || s.baseline == nil {
		return false, nil
	}
	if !s.observed {
		s.observed = true
		longer, err := s.world.Play(ctx, Plan{Seed: baselineSeed(s.options.Seed, baselines), Learn: true, Vary: true, Observe: true})
		if err != nil {
			return false, err
		}
		if longer.Run.Failure == nil {
			s.learn(longer)
			s.states = append(s.states, longer.Later...)
			s.learned()
		}
	}
	compare := s.baseline.CompareAfter(out.Plan.Faults)
	return compare == nil || compare(out.State) == nil, nil
}
