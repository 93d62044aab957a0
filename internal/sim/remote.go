package sim

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// expectation is what runs are compared with.
type expectation struct {
	// States are the final states of runs without faults, from which the baseline is made.
	States   []verdict.State
	Periodic []verdict.Periodic
	Edited   map[string]bool
	Exempt   map[string]bool
}

// request is a message to the other process: a plan to play, or the end.
type request struct {
	// Expect is set if it has changed since the last request.
	Expect   *expectation
	Seed     uint64
	Faults   []fault.Fault
	Schedule history.Schedule
	// Compared and Generations say that the run has a Plan.Expect and Plan.Generations.
	Compared, Generations bool
	End                   bool
}

// answer is a message from the other process: the outcome of a plan, in the order of the requests. The first and the last message
// have none.
type answer struct {
	Error string
	// The fields of an Outcome with which a run with faults or a schedule can differ from the first run.
	Run     *history.Run
	State   verdict.State
	Unmet   []fault.Fault
	Seen    map[string]bool
	Reports []string
	Final   bool
}

// ErrDisconnected is the error of a Remote whose process has ended or does not keep to the protocol.
var ErrDisconnected = errors.New("the process has ended")

// Remote is a World in another process, which runs Serve. It plays one plan at a time; further ones wait there.
type Remote struct {
	ready chan struct{}

	sending sync.Mutex // held while a plan is sent, so that the order of plans is that of waiting
	out     *gob.Encoder
	sent    *expectation

	mu      sync.Mutex
	reached bool // the process has sent its first message
	waiting []waiting
	err     error // why no further answer follows
	played  int
}

// waiting is a plan that was sent, and where its result goes.
type waiting struct {
	plan Plan
	done chan result
}

// result is an outcome, or an error about the world.
type result struct {
	out *Outcome
	err error
}

// NewRemote returns a world that sends plans to w. Receive reads the answers.
func NewRemote(w io.Writer) *Remote {
	return &Remote{ready: make(chan struct{}), out: gob.NewEncoder(w)}
}

// Receive reads the answers of the other process until it ends the connection, or until End has been called and answered.
func (r *Remote) Receive(from io.Reader) {
	in := gob.NewDecoder(bufio.NewReader(from))
	err := in.Decode(&answer{})
	r.mu.Lock()
	r.reached = err == nil
	r.mu.Unlock()
	if err == nil {
		close(r.ready)
	}
	for err == nil {
		var a answer
		if err = in.Decode(&a); err == nil && !r.deliver(&a) {
			err = io.EOF
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.reached:
		r.err = fmt.Errorf("%w before it reached the search (%w)", ErrDisconnected, err)
		close(r.ready) // the search gets the error
	case len(r.waiting) > 0:
		p := r.waiting[0].plan
		r.err = fmt.Errorf("%w during a run with seed %d and the faults %q (%w)", ErrDisconnected, p.Seed, fault.Strings(p.Faults), err)
		if !p.Schedule.IsZero() {
			r.err = fmt.Errorf("%w; %s", r.err, p.Schedule)
		}
	default:
		r.err = fmt.Errorf("%w (%w)", ErrDisconnected, err)
	}
	for _, w := range r.waiting {
		w.done <- result{err: r.err}
	}
	r.waiting = nil
}

// deliver passes an answer to the plan that has waited longest; false: none waits, so it is the last message.
func (r *Remote) deliver(a *answer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return false
	}
	first := r.waiting[0]
	r.waiting = r.waiting[1:]
	if a.Error != "" {
		first.done <- result{err: errors.New(a.Error)}
		return true
	}
	r.played++
	first.done <- result{out: &Outcome{Run: a.Run, State: a.State, Unmet: a.Unmet, Seen: a.Seen, Reports: a.Reports, Final: a.Final}}
	return true
}

// Ready is closed when the process has sent its first message, or has ended before.
func (r *Remote) Ready() <-chan struct{} { return r.ready }

// Reached reports whether the process has called Serve.
func (r *Remote) Reached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reached
}

// Played returns how many runs the process has played.
func (r *Remote) Played() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.played
}

// Play implements World for runs with faults or a schedule. It does not return before the process has answered or ended.
func (r *Remote) Play(_ context.Context, p Plan) (*Outcome, error) {
	done := make(chan result, 1)
	if err := r.send(p, done); err != nil {
		return nil, err
	}
	got := <-done
	return got.out, got.err
}

func (r *Remote) send(p Plan, done chan result) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	q := request{Seed: p.Seed, Faults: p.Faults, Schedule: p.Schedule, Compared: p.Expect != nil, Generations: p.Generations != nil}
	if p.expects != r.sent {
		q.Expect, r.sent = p.expects, p.expects
	}
	r.mu.Lock()
	err := r.err
	if err == nil {
		r.waiting = append(r.waiting, waiting{p, done})
	}
	r.mu.Unlock()
	if err == nil {
		_ = r.out.Encode(&q) // after an error, Receive reports that the process has ended
	}
	return err
}

// End asks the process to end. It must not be called while a plan is played.
func (r *Remote) End() error {
	r.sending.Lock()
	defer r.sending.Unlock()
	return r.out.Encode(&request{End: true})
}

// Serve plays the plans of a Remote in another process until that calls End. It then calls ended, and sends the last message.
func Serve(ctx context.Context, world World, r io.Reader, w io.Writer, ended func()) error {
	in, buffered := gob.NewDecoder(bufio.NewReader(r)), bufio.NewWriter(w)
	encoder := gob.NewEncoder(buffered)
	send := func(a *answer) error { return errors.Join(encoder.Encode(a), buffered.Flush()) }
	if err := send(&answer{}); err != nil {
		return err
	}
	expect := &expectation{}
	var baseline *verdict.Baseline
	for {
		var q request
		if err := in.Decode(&q); err != nil {
			return err
		}
		if q.End {
			ended()
			return send(&answer{})
		}
		if q.Expect != nil {
			expect, baseline = q.Expect, q.Expect.baseline()
		}
		p := Plan{Seed: q.Seed, Faults: q.Faults, Schedule: q.Schedule, Exempt: expect.Exempt, Periodic: expect.Periodic}
		if q.Compared {
			p.Expect = baseline.CompareAfter(q.Faults)
		}
		if q.Generations {
			p.Generations = baseline.CompareGenerations
		}
		var a answer
		if out, err := world.Play(ctx, p); err != nil {
			a.Error = err.Error()
		} else {
			a = answer{Run: out.Run, State: out.State, Unmet: out.Unmet, Seen: out.Seen, Reports: out.Reports, Final: out.Final}
		}
		if err := send(&a); err != nil {
			return err
		}
	}
}

// baseline makes the baseline of the states; nil if there are none.
func (e *expectation) baseline() *verdict.Baseline {
	b := verdict.NewBaseline(e.States)
	if b != nil {
		b.MaskPeriodic(e.Periodic)
		b.MaskEdited(e.Edited)
	}
	return b
}

// expectation returns what the runs of the search are compared with now.
func (s *search) expectation() *expectation {
	return &expectation{States: slices.Clone(s.states), Periodic: slices.Clone(s.periodic), Edited: maps.Clone(s.edited), Exempt: maps.Clone(s.exempt)}
}
