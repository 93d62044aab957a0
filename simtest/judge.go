package simtest

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// endCalm is how long nobody may have written anything before a run counts as come
// to rest.
const endCalm = time.Minute

// defaultPatience is how long after the story a world may take to come to the state
// of a run without faults.
const defaultPatience = 10 * time.Minute

// fail ends the run with its verdict.
func (w *World) fail(oracle, message string) {
	if w.over {
		return
	}
	w.over = true
	w.record.Failure = &history.Failure{Oracle: oracle, Message: message, Step: max(len(w.record.Steps)-1, 0), At: w.elapsed()}
}

// check asks one promise. One that panics is a mistake of the test.
func (w *World) check(i invariant.Invariant) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.failTest(fmt.Sprintf("the promise %q panicked: %v\n%s", i.Name, p, debug.Stack()))
		}
	}()
	if i.Check == nil {
		w.failTest(fmt.Sprintf("the promise %q has no Check", i.Name))
		return nil
	}
	return i.Check(w.truth)
}

// judge looks at the promises that must always hold.
func (w *World) judge() {
	if w.judgedAt == w.truth.Read() {
		return
	}
	w.judgedAt = w.truth.Read()
	for _, i := range w.always {
		if err := w.check(i); err != nil {
			w.fail(i.Name, err.Error())
			return
		}
	}
	w.look()
}

// judgeRecord looks at what must hold for the record as a whole, once it is whole.
func (w *World) judgeRecord() {
	for _, i := range w.config.record {
		if w.record.Failure != nil {
			return
		}
		if err := w.check(i); err != nil {
			w.over = false
			w.fail(i.Name, err.Error())
		}
	}
	w.judgeViews()
}

// staleOracle is broken by a write that nothing stood in the way of.
const staleOracle = "no write is decided on a view older than the writer's own last write, unless the API can refuse it"

// judgeViews looks for writes that a controller decided before it had seen its own
// last write. They are reported. The run fails if the API accepted one that is about
// the same thing and named no precondition.
func (w *World) judgeViews() {
	for _, stale := range invariant.StaleWrites(w.record) {
		if stale.Accepted && w.record.Failure == nil && sameMatter(w.record, &w.record.Steps[stale.Step], &w.record.Steps[stale.Own]) {
			w.over = false
			w.fail(staleOracle, stale.String())
			w.record.Failure.Step, w.record.Failure.At = stale.Step, w.record.Steps[stale.Step].At
			continue
		}
		w.reports = append(w.reports, stale.String())
	}
}

// generated is how many characters the API appends to a generateName.
const generated = 5

// sameMatter tells whether two writes are about the same object, or make objects of
// the same generated name, that is, for the same owner. A controller that works for
// many owners need not have seen what it did for others.
func sameMatter(run *history.Run, write, own *history.Step) bool {
	if write.Resource != own.Resource || write.Namespace != own.Namespace {
		return false
	}
	if write.Verb != "create" || len(write.Name) <= generated {
		return write.Name == own.Name
	}
	prefix := write.Name[:len(write.Name)-generated]
	return strings.HasPrefix(own.Name, prefix) && !ownerMade(run, write.Namespace, prefix, own.N, write.N)
}

// ownerMade tells whether an object after which a generated name may be called was
// made between two steps: it is another owner then, of the name of one before.
func ownerMade(run *history.Run, namespace, prefix string, since, until int) bool {
	for n := since + 1; n < until; n++ {
		s := &run.Steps[n]
		if s.Verb == "create" && s.Wrote() && s.Subresource == "" && s.Namespace == namespace && strings.HasPrefix(prefix, s.Name+"-") {
			return true
		}
	}
	return false
}

// look notes what should be seen sometimes.
func (w *World) look() {
	for _, i := range w.sometimes {
		if !w.seen[i.Name] && w.check(i) == nil {
			w.seen[i.Name] = true
		}
	}
}

// rest decides, once the story is over and nothing can happen now, whether the run
// is over too, and otherwise how long to wait. held says that a fault keeps
// something back: the time that promises have begins when faults have ended, and is
// longer by as much as they kept things back. A controller whose tries failed for so
// long may rightly wait as long again until the next: waits that double are about as
// long as all that went before them.
func (w *World) rest(held bool) (left time.Duration) {
	now := w.elapsed()
	if w.ending == 0 || held {
		w.ending = max(now, 1)
	}
	calm := w.lastWrite + endCalm - now
	broken := w.unkept()
	if calm <= 0 && len(broken) == 0 && !held {
		w.over = true
		return 0
	}
	left = time.Hour
	for _, b := range broken {
		due := w.ending + b.within + w.heldFor - now
		if due <= 0 {
			w.fail(b.oracle, b.message)
			return 0
		}
		left = min(left, due)
	}
	if calm > 0 {
		if now >= w.ending+max(w.longest(), defaultPatience)+w.heldFor {
			w.fail("comes to rest", fmt.Sprintf("somebody still writes %s after the story: %s", now-w.ending, w.record.LastWriter()))
			return 0
		}
		left = min(left, calm)
	}
	return left
}

// asExpected compares the state with that of runs without faults. Most runs end in a
// state that an earlier one ended in.
func (w *World) asExpected() error {
	f := w.truth.Fingerprint()
	if w.config.fitting[f] {
		return nil
	}
	err := w.plan.Expect(w.truth.State())
	if err == nil {
		w.config.fitting[f] = true
	}
	return err
}

// longest is the longest that a promise may take.
func (w *World) longest() (d time.Duration) {
	for _, p := range w.eventually {
		d = max(d, p.within)
	}
	return d
}

// broken is a promise that does not hold at rest, and how long it may yet take.
type broken struct {
	oracle, message string
	within          time.Duration
}

func (w *World) unkept() (all []broken) {
	w.exempt = nil // what was broken at an earlier rest may hold at the last one
	for _, p := range w.eventually {
		if err := w.check(p.Invariant); err != nil {
			all = append(all, broken{fmt.Sprintf("%s, within %s", p.Name, p.within), err.Error(), p.within})
		}
	}
	patience := max(defaultPatience, w.longest())
	for _, i := range w.config.atRest {
		if err := w.check(i); err != nil {
			all = append(all, broken{i.Name, err.Error(), patience})
		}
	}
	for _, i := range w.config.unless {
		err := w.check(i)
		switch {
		case err == nil:
		case w.plan.Learn:
			w.exempt = append(w.exempt, i.Name)
		case !w.plan.Exempt[i.Name]:
			all = append(all, broken{i.Name, err.Error(), patience})
		}
	}
	if w.plan.Expect != nil && !w.endsVary && len(all) == 0 {
		if err := w.asExpected(); err != nil {
			all = append(all, broken{"ends as without faults", err.Error(), patience})
		}
	}
	return all
}
