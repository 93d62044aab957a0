package history

import (
	"errors"
	"fmt"
)

// Schedule decides which action is next where several may happen: requests of different actors, events of different watches,
// and answers. Each chain of actions that stay in order has a random priority, and the chain with the highest one is
// next (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010). The
// zero value takes the oldest action.
type Schedule struct {
	// Seed determines the priorities of the chains and the change points.
	Seed uint64 `json:"seed"`
	// Depth is one more than the number of change points, at each of which the chain that would be next gets a priority
	// below all others. 0: the oldest action is next.
	Depth int `json:"depth"`
	// Choices is the expected number of steps at which several chains have an action. The change points are among them.
	Choices int `json:"choices"`
}

// IsZero reports whether the oldest action is always next.
func (s Schedule) IsZero() bool { return s.Depth == 0 }

// String returns one sentence that says how the order of a run was chosen.
func (s Schedule) String() string {
	if s.IsZero() {
		return "of several actions that may happen, the oldest one is next"
	}
	text := fmt.Sprintf("of several actions that may happen, random priorities choose the next one (schedule seed %d, depth %d)", s.Seed, s.Depth)
	switch changes := s.Depth - 1; changes {
	case 0:
		return text
	case 1:
		return text + "; one priority changes during the run"
	default:
		return fmt.Sprintf("%s; %d priorities change during the run", text, changes)
	}
}

// check returns an error for a schedule that no search creates.
func (s Schedule) check() error {
	switch {
	case s == Schedule{}:
		return nil
	case s.Depth < 1 || s.Depth > MaxDepth:
		return fmt.Errorf("schedule.depth is %d and must be from 1 to %d", s.Depth, MaxDepth)
	case s.Choices < 1:
		return errors.New("schedule.choices must be above 0")
	}
	return nil
}

// MaxDepth is the largest depth of a schedule.
const MaxDepth = 16
