package simtest

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// quiet is the time without a write after which a run counts as quiescent.
const quiet = time.Minute

// endTimeout is how long after the test function has returned a run may take to become quiescent
// and to reach the state of a run without faults.
const endTimeout = 10 * time.Minute

// followStore starts to follow the contents of the run's store.
func (w *World) followStore() error {
	revision := w.store.Revision()
	kvs, _, _, err := w.store.RawRange("", "\x00", 0, 0)
	if err != nil {
		return err
	}
	initial := make([]verdict.Write, len(kvs))
	for n, kv := range kvs {
		initial[n] = verdict.Write{Key: kv.Key, Value: kv.Value, Revision: kv.ModRevision}
	}
	w.truth = verdict.NewObjects(verdict.ObjectsOptions{
		Resources: w.server.worlds, Decodings: w.server.decoded, Types: w.config.scheme,
		Now: time.Now, Elapsed: w.elapsed, Run: func() *history.Run { return w.record },
	}, revision, initial)
	w.activity = verdict.NewActivity(w.truth)
	return nil
}

// takeWrites applies the writes since the last call to w.truth, and returns them.
func (w *World) takeWrites() (changes []verdict.Change, err error) {
	writes, err := w.store.Changes(w.truth.Revision())
	for _, c := range writes {
		changes = append(changes, w.truth.Take(verdict.Write{Key: c.Key, Value: c.Value, Revision: c.Revision}))
	}
	return changes, err
}

// fail ends the run, unless it has ended, with a failure at its last step.
func (w *World) fail(oracle, message string) {
	w.failWith(&history.Failure{Oracle: oracle, Message: message, Step: max(len(w.record.Steps)-1, 0), At: w.elapsed()})
}

// failWith ends the run, unless it has ended, with a failure.
func (w *World) failWith(f *history.Failure) {
	if !w.over {
		w.over, w.record.Failure = true, f
	}
}

// check evaluates one invariant on the state of the API.
func (w *World) check(i invariant.Invariant) error { return w.checkOn(i, w.truth) }

// checkOn evaluates one invariant. An invariant that panics is an error of the test.
func (w *World) checkOn(i invariant.Invariant, view invariant.View) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.failTest(fmt.Sprintf("the invariant %q panicked: %v\n%s", i.Name, p, debug.Stack()))
		}
	}()
	if i.Check == nil {
		w.failTest(fmt.Sprintf("the invariant %q has no Check", i.Name))
		return nil
	}
	return i.Check(view)
}

// checkAlways checks the invariants that must always hold, once per revision. It does not while an object of the user
// is absent only because a fault is about to create it again.
func (w *World) checkAlways() {
	if w.checkedAt == w.truth.Revision() || w.isRecreating() {
		return
	}
	w.checkedAt = w.truth.Revision()
	if f := verdict.FirstViolated(w.always, w.check, len(w.record.Steps)-1, w.elapsed()); f != nil {
		w.failWith(f)
		return
	}
	w.checkSometimes()
}

// checkSometimes records which of the invariants of Sometimes hold now.
func (w *World) checkSometimes() {
	for _, i := range w.sometimes {
		if !w.seen[i.Name] && w.check(i) == nil {
			w.seen[i.Name] = true
		}
	}
}

// checkRecord checks the rules about the record as a whole, once it is complete.
func (w *World) checkRecord() {
	if w.record.Failure == nil {
		w.replaceFailure(verdict.WholeRecord(w.policy, w.truth, w.checkOn, w.elapsed()))
	}
	stale, reports := verdict.StaleOwnWrites(w.policy, w.record)
	w.replaceFailure(stale)
	w.reports = append(w.reports, reports...)
}

// replaceFailure fails a run that is already over; it does nothing if f is nil.
func (w *World) replaceFailure(f *history.Failure) {
	if f != nil {
		w.over = false
		w.failWith(f)
	}
}

// checkLivelock ends a run that does not become quiescent.
func (w *World) checkLivelock() {
	// A test function that waits in Settle can do nothing more for now.
	w.mu.Lock()
	waiting := w.testReturned || w.waiting != nil && w.waiting.calm > 0
	w.mu.Unlock()
	switch l := verdict.FindLivelock(w.record, w.lastPause, w.elapsed(), waiting); {
	case l == nil:
	case l.Test:
		w.failTest(l.Message)
	case !w.policy.Checks(invariant.AutomaticQuiescence):
		w.over = true
	default:
		w.fail(l.Oracle, l.Message)
	}
}

// checkQuiescence decides, once the test function has returned and no action may happen now,
// whether the run is over. If it is not, wait is the maximum time to wait. holding reports that a
// fault still delays something: timeouts begin when the faults have ended.
func (w *World) checkQuiescence(holding bool) (wait time.Duration) {
	now := w.elapsed()
	if w.ending == 0 || holding {
		w.ending = max(now, 1)
	}
	if w.observeUntil > 0 {
		return w.observe(0)
	}
	final := w.finalRules()
	rules := verdict.Quiescence{Quiet: quiet, Timeout: final.Longest(), Optional: !w.policy.Checks(invariant.AutomaticQuiescence)}
	d := rules.Decide(verdict.Moment{Now: now, Ended: w.ending, LastWrite: w.lastOtherWrite(w.ending, quiet), BusySince: w.written.BusySince, Held: w.heldFor, LastFault: w.lastFault, Holding: holding},
		func() (unmet []verdict.Unmet) {
			unmet, w.exempt = final.Unmet(w.check)
			return unmet
		}, w.record.LastWriter)
	switch {
	case d.Failure != nil:
		if d.Failure.Step == 0 {
			d.Failure.Step = max(len(w.record.Steps)-1, 0)
		}
		w.failWith(d.Failure)
		return 0
	case d.Over && w.plan.Observe:
		return w.observe(final.Longest())
	case d.Over:
		w.over = true
		return 0
	}
	return d.Wait
}

// observeFor is for how many times the longest timeout of a run it is observed after its end, to learn which fields
// change later. A resync that comes once in that timeout then comes twice.
const observeFor = 2

// observe is called instead of ending a run that is observed after its end. It returns the maximum time to wait.
func (w *World) observe(timeout time.Duration) (wait time.Duration) {
	now := w.elapsed()
	if w.observeUntil == 0 {
		w.observeUntil = now + observeFor*timeout
	}
	if hash := w.truth.StateHash(); len(w.laterStates) < maxLater && hash != w.laterHash {
		w.laterHash, w.laterStates = hash, append(w.laterStates, w.truth.State(w.policy.Ignore...))
	}
	if now >= w.observeUntil {
		w.over = true
		return 0
	}
	return w.observeUntil - now
}

// maxLater limits the states of a run that is observed after its end.
const maxLater = 200

// lastOtherWrite returns the time of the last write that is not periodic. The run waits since a time for a quiet
// time without such a write.
func (w *World) lastOtherWrite(since, quiet time.Duration) time.Duration {
	if !verdict.MayBePeriodic(w.elapsed(), w.written.Last, since, quiet) {
		return w.written.Last
	}
	at, _ := w.activity.Rhythm(w.plan.Learn, w.plan.Periodic)
	return at
}

// finalRules are what must hold at the end of the run.
func (w *World) finalRules() verdict.Final {
	f := verdict.Final{Eventually: w.eventually, Timeout: verdict.DifferenceTimeout(endTimeout, w.plan.Periodic), Learn: w.plan.Learn, Exempt: w.plan.Exempt, Policy: w.policy}
	if w.plan.Expect != nil {
		matching := w.config.matching
		if slices.ContainsFunc(w.plan.Faults, func(f fault.Fault) bool { return f.Kind == fault.KindRecreate }) {
			matching = map[uint64]bool{} // more differences are accepted
		}
		f.Baseline = func() error { return w.compare(matching, w.plan.Expect) }
	}
	if w.plan.Generations != nil {
		f.Generations = func() error { return w.compare(w.config.observed, w.plan.Generations) }
	}
	return f
}

// compare compares the state with that of the runs without faults. It keeps the hashes of states in
// which there is no difference, because most runs end in the state of an earlier run.
func (w *World) compare(same map[uint64]bool, difference func(verdict.State) error) error {
	hash := w.truth.StateHash()
	if same[hash] {
		return nil
	}
	err := difference(w.truth.State(w.policy.Ignore...))
	if err == nil {
		same[hash] = true
	}
	return err
}
