package stage

import (
	"fmt"
	"time"
)

// LifeOptions are what a lifecycle depends on besides the object and the stages.
type LifeOptions struct {
	Start time.Time
	Seed  uint64
	// For is how much virtual time passes at most, and MaxSteps how many stages
	// are played at most.
	For      time.Duration
	MaxSteps int
	// DeleteAfter is when deletion is requested; negative for never.
	DeleteAfter time.Duration
	Facts       Facts
	Scene       Scene
}

// Transition is one change of an object in a simulated lifecycle: a stage that was played, or a DELETE request.
type Transition struct {
	// At is the virtual time since the start.
	At time.Duration
	// Decision is why; the zero Decision for a deletion request.
	Decision Decision
	// Share is the chance that the stage had to be the next; 1 where nothing was drawn.
	Share float64
	// Effects are what was written and recorded.
	Effects Effects
	// Before and After are the object; After is nil when it is gone.
	Before, After Object
	// Problem is why the stage could not be played.
	Problem string
}

// Life plays an object from o on in virtual time. It returns the transitions and one sentence that says why the
// lifecycle ends there.
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
			return transitions, fmt.Sprintf("%s is due at %s, after the %s that are played", d.Stage, d.Due.Sub(opts.Start), opts.For)
		case played == opts.MaxSteps:
			return transitions, fmt.Sprintf("%d stages are played; %s would be next, at %s", played, d.Stage, d.Due.Sub(opts.Start))
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
	return transitions, "the object is gone"
}
