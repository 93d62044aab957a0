package sim

import (
	"cmp"
	"context"
)

// slots is how many plans a world of Options.Others has at a time: it plays one, and the next one waits there, so
// that it can start without a message.
const slots = 2

// inProgress is a plan that a world plays.
type inProgress struct {
	out *Outcome
	err error
	// done is closed when out or err is set.
	done chan struct{}
}

// openSlots offers the world of the search and, as soon as they are ready, the others to the plans of tryAhead.
func (s *search) openSlots(ctx context.Context) {
	if len(s.options.Others) == 0 {
		return
	}
	s.free = make(chan World, 1+slots*len(s.options.Others))
	s.free <- s.world
	for _, w := range s.options.Others {
		open := func() {
			for range slots {
				s.free <- w
			}
		}
		late, ok := w.(interface{ Ready() <-chan struct{} })
		if !ok {
			open()
			continue
		}
		go func() {
			select {
			case <-late.Ready():
				open()
			case <-ctx.Done():
			}
		}()
	}
}

// tryAhead tries the next plans on several worlds until a run fails, as tryUntilFailure does. It draws plans before it
// knows the outcomes of those in progress, and accounts the outcomes in the order of the plans. The number
// of plans in progress is always the same. So what a search of a deterministic world tries and finds depends on the number of worlds,
// but neither on their speed nor on which of them plays a plan.
func (s *search) tryAhead(ctx context.Context, next func() (Plan, bool)) error {
	var pending []*inProgress
	var ended, failed error // why no plan is drawn: no further one may be played; a run failed
	draw := func() error {
		p, ok := next()
		if !ok {
			return errStop
		}
		err := s.admit(ctx, p)
		if err == nil {
			pending = append(pending, s.begin(ctx, s.prepared(p)))
		}
		return err
	}
	over := false // outcomes after the end are ignored
	for {
		for ended == nil && failed == nil && len(pending) < slots*(1+len(s.options.Others)) {
			ended = draw()
		}
		if len(pending) == 0 {
			return cmp.Or(failed, ended)
		}
		first := pending[0]
		pending = pending[1:]
		<-first.done
		switch {
		case over:
		case first.err != nil:
			ended, failed, over = first.err, nil, true
		default:
			switch err := s.account(ctx, first.out); err {
			case nil:
			case errFailed:
				failed = err
			default:
				ended, failed, over = err, nil, true
			}
		}
	}
}

// begin plays a plan on the next free world.
func (s *search) begin(ctx context.Context, p Plan) *inProgress {
	run := &inProgress{done: make(chan struct{})}
	go func() {
		defer close(run.done)
		world := <-s.free
		defer func() { s.free <- world }()
		run.out, run.err = playOn(ctx, world, p)
	}()
	return run
}
