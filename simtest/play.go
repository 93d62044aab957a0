package simtest

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// player executes the runs of one test. It implements sim.World.
type player struct {
	t      testing.TB
	server *server
	config *settings
	test   func(*World)
}

// oneRun is locked during a run, because name generation, jitter and error handlers are global to
// the process.
var oneRun sync.Mutex

var runs atomic.Int64

// Play implements sim.World.
func (p *player) Play(_ context.Context, plan sim.Plan) (*sim.Outcome, error) {
	oneRun.Lock()
	defer oneRun.Unlock()
	run := "run-" + strconv.FormatInt(runs.Add(1), 10)
	defer p.server.worlds.Drop(run)
	w := &World{
		server: p.server, config: p.config, run: run, plan: plan, faults: fault.NewPlan(plan.Faults),
		record:     &history.Run{Header: history.Header{Format: history.Format, Test: p.t.Name(), Seed: plan.Seed, Faults: fault.Strings(plan.Faults), Schedule: plan.Schedule}},
		priorities: newPriorities(plan.Schedule),
		actors:     map[string]*actor{}, wrote: map[int64]int{}, counts: map[string]int{}, seen: map[string]bool{},
	}
	final := p.inBubble(w)
	out := &sim.Outcome{Run: w.record, Restricted: w.restricted, Patterns: w.patterns, Overlapping: w.overlapping, Except: w.except, Trusted: w.policy.Trusted, State: w.final, Later: w.laterStates, EndsVary: !w.policy.Checks(invariant.AutomaticEndState), Seen: w.seen, Exempt: w.exempt, Periodic: w.periodic, Reports: w.reports, Final: final || w.byTest, Choices: w.priorities.choices}
	if !final { // else goroutines of the run still use its faults
		out.Unmet = w.faults.Unmet()
	}
	return out, w.broken
}

// inBubble executes the run and returns when its bubble has ended, or when the guard reports that
// the bubble is stuck.
func (p *player) inBubble(w *World) (stuck bool) {
	t, ok := p.t.(*testing.T)
	if !ok {
		t = &testing.T{} // a benchmark: synctest needs a *testing.T, which it does not use
	}
	current.Store(w)
	defer current.Store(nil)
	alarm := p.server.guard.begin()
	defer p.server.guard.end()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		synctest.Test(t, func(*testing.T) { w.execute(p.test) })
	}()
	select {
	case problem := <-done:
		if problem != nil && w.record.Failure == nil {
			w.record.Failure = bubbleFailure(w, problem)
		}
		return false
	case stacks := <-alarm:
		// The goroutines of the bubble cannot be stopped. They hold nothing that another run needs.
		w.record = frozen(w.record)
		w.record.Failure = stuckFailure(w.record, stacks)
		return true
	}
}

// execute executes the run. It runs in the bubble.
func (w *World) execute(test func(*World)) {
	w.start, w.bookmarks = time.Now(), bookmarkEvery
	w.record.Start = w.start
	w.clock.set()
	if w.store, w.broken = w.server.fork(w.run, w.plan.Seed, w.clock.now); w.broken != nil {
		return
	}
	if w.broken = w.followStore(); w.broken != nil {
		return
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.arrived, w.released = make(chan struct{}, 1), make(chan struct{})
	w.user = &instance{world: w, name: userName, cancel: func() {}}
	w.otherUser = &instance{world: w, name: otherUserName, cancel: func() {}}
	w.instances = []*instance{w.user, w.otherUser}
	w.reseed()
	go w.runTest(test)
	w.loop()
	w.checkSometimes()
	w.checkRecord()
	if f := w.record.Failure; f == nil && w.plan.Learn || f != nil && f.Oracle == verdict.BaselineOracle {
		w.final = w.truth.State(w.policy.Ignore...)
		_, w.periodic = w.activity.Rhythm(true, nil)
	}
	w.end()
	verdict.SetSwitch(w.record.Failure, verdict.InTest)
}

// runTest calls the test function on its own goroutine.
func (w *World) runTest(test func(*World)) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			w.panicked("the test function", fmt.Sprintf("%v\n%s", p, debug.Stack()))
			w.mu.Lock()
			w.byTest = true
			w.mu.Unlock()
		}
		w.mu.Lock()
		if !returned && w.runErr == nil && w.ctx.Err() == nil { // else the run ended first
			w.runErr, w.byTest = errTestExited, true
		}
		w.testReturned = true
		w.mu.Unlock()
		w.poke()
	}()
	test(w)
	w.checkTrusted()
	returned = true
}

// exitTimeout is the virtual time in which goroutines must return after the run. It is longer than
// the usual maximum back-off.
const exitTimeout = 10 * time.Minute

// end terminates all instances, and fails the run if a constructor does not return.
func (w *World) end() {
	w.cancel()
	w.waitBlocked()
	close(w.released)
	for _, i := range w.instances {
		if !i.dead {
			w.kill(i)
		}
	}
	w.waitBlocked()
	time.Sleep(exitTimeout)
	w.waitBlocked()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.instances {
		if i.actor != nil && !i.ended && w.record.Failure == nil {
			w.record.Failure = &history.Failure{
				Oracle:  "controllers end when their context ends",
				Message: fmt.Sprintf("the constructor of %s has not returned %s after its context ended", i.name, exitTimeout),
				Step:    len(w.record.Steps) - 1, At: w.elapsed(),
			}
		}
	}
}

// current is the World of the current run; nil: no run executes.
var current atomic.Pointer[World]

// bubbleFailure returns the failure of a run whose bubble ended with a panic.
func bubbleFailure(w *World, problem any) *history.Failure {
	text := fmt.Sprint(problem)
	f := &history.Failure{Oracle: "controllers leave nothing behind", Message: text, Step: max(len(w.record.Steps)-1, 0)}
	if strings.Contains(text, "blocked goroutines remain") {
		f.Message = "goroutines have not returned after the run:\n" + leaked()
	}
	return f
}
