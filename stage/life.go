package stage

import (
	"fmt"
	"time"
)

// LifeOptions are the inputs of a lifecycle besides the object and the stages.
type LifeOptions struct {
	Start time.Time
	Seed  uint64
	// For limits the virtual time, and MaxSteps the number of stages.
	For      time.Duration
	MaxSteps int
	// DeleteAfter is the time of the deletion request; negative for none.
	DeleteAfter time.Duration
	Facts       Facts
	Scene       Scene
}

// Transition is one change of an object in a simulated lifecycle: a stage, or a DELETE request.
type Transition struct {
	// At is the virtual time since the start.
	At time.Duration
	// Decision chose the stage; the zero Decision for a deletion request.
	Decision Decision
	// Share is the probability of the stage; 1 without a draw.
	Share float64
	// Effects are the writes and Events.
	Effects Effects
	// Before and After are the object; After is nil if it was deleted.
	Before, After Object
	// Problem explains why the stage could not be played.
	Problem string
}

// Life simulates the lifecycle of an object in virtual time. It returns the transitions, and one sentence that
// explains why the lifecycle ends.
func (s *Set) Life(o Object, opts LifeOptions) (transitions []Transition, end string) {
	now, until := opts.Start, opts.Start.Add(opts.For)
	deleteAt := time.Time{}
	if opts.DeleteAfter >= 0 {
		deleteAt = opts.Start.Add(opts.DeleteAfter)
	}
	past := Past{}
	askDelete := func() {
		now = deleteAt
		deleteAt = time.Time{}
		after := RequestDeletion(o, now)
		transitions = append(transitions, Transition{At: now.Sub(opts.Start), Before: o, After: after})
		o = after
	}
	played := 0
	for o != nil {
		d := s.Decide(now, opts.Seed, o, past, opts.Scene)
		before := past
		past.Decided(&d)
		asked := !deleteAt.IsZero() && !deleteAt.After(until)
		switch {
		case asked && (!d.Chosen() || !d.Due.Before(deleteAt)):
			askDelete()
			continue
		case !d.Chosen():
			return transitions, d.String()
		case d.Due.After(until):
			return transitions, fmt.Sprintf("%s is due at %s, after the limit of %s", d.Stage, d.Due.Sub(opts.Start), opts.For)
		case played == opts.MaxSteps:
			return transitions, fmt.Sprintf("the limit of %d stages is reached; %s would be next, at %s", played, d.Stage, d.Due.Sub(opts.Start))
		}
		b := Transition{Decision: d, Share: 1, Before: o}
		for _, option := range s.Options(now, opts.Seed, o, before, opts.Scene) {
			if option.Stage == d.Stage && d.Reason.Code == DrawnStage {
				b.Share = option.Share
			}
		}
		if d.Due.After(now) {
			now = d.Due
		}
		b.At = now.Sub(opts.Start)
		outcome, err := s.Preview(now, o, d, opts.Facts)
		if err != nil {
			b.Problem, b.After = err.Error(), o
			return append(transitions, b), d.Stage + " cannot be played on this object"
		}
		b.Effects, b.After = outcome.Effects, outcome.After
		transitions = append(transitions, b)
		past = past.After(&d, now, outcome.Writes())
		o = outcome.After
		played++
	}
	return transitions, "the object was deleted"
}
