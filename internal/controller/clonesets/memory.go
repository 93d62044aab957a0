package clonesets

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// memory is what the controller remembers of one CloneSet. Only one worker at a time syncs the CloneSet,
// but its writes are concurrent.
type memory struct {
	reconcile.Memory
	past cloneset.Past

	mu sync.Mutex // guards what concurrent writes record
	// taken are names that objects of other owners have, failed the names of pods whose create failed.
	taken, failed map[string]bool
	// unanswered are those in failed whose create had no answer: it may have had effect.
	unanswered map[string]bool
	// revisionCollides: the name of the template's revision belongs to another object.
	revisionCollides bool
	scaleError       firstError
	updateError      firstError
	// createBackoff is the wait after a failed create; failures are the objects whose last write failed.
	createBackoff backoff
	failures      map[types.UID]*failure

	// views and revisions are kept while their objects are unchanged, digest while generation is.
	views      map[types.UID]*cloneset.Pod
	revisions  map[types.UID]*cloneset.Revision
	generation int64
	digest     string
}

// firstError is the error of the action with the lowest number.
type firstError struct {
	number int
	err    error
}

func (f *firstError) note(number int, err error) {
	if f.err == nil || number < f.number {
		*f = firstError{number, err}
	}
}

func (f firstError) text() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (m *memory) note(names *map[string]bool, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *names == nil {
		*names = map[string]bool{}
	}
	(*names)[name] = true
}

// backoff is the wait after consecutive failures.
type backoff struct{ last time.Duration }

// next returns the wait after one more failure.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, reconcile.RetryFirst), reconcile.RetryMost)
	return b.last
}

// failure is the last write of an object, which failed.
type failure struct {
	backoff
	until time.Time // not written again before
	err   error
}

// waits reports whether the last write of an action's object failed and the object is still in backoff,
// and returns that error. Other objects do not wait for it.
func (m *memory) waits(a *workload.Action, now time.Time) (error, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.failures[a.Object.GetUID()]; f != nil && now.Before(f.until) {
		return f.err, true
	}
	return nil, false
}

// blocked returns the objects that a plan must not wait for: the API rejected their last write, or it
// failed too often in a row to be a transient error.
func (m *memory) blocked() map[types.UID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all map[types.UID]bool
	for uid, f := range m.failures {
		if reconcile.Rejected(f.err) || f.last >= notTransient {
			if all == nil {
				all = make(map[types.UID]bool, len(m.failures))
			}
			all[uid] = true
		}
	}
	return all
}

// notTransient is the backoff of a write that has failed five times in a row.
const notTransient = 16 * reconcile.RetryFirst

// recordAttempt records the result of the write of an object.
func (m *memory) recordAttempt(a *workload.Action, now time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := a.Object.GetUID()
	if err == nil || errors.Is(err, reconcile.ErrStale) {
		delete(m.failures, uid)
		return
	}
	for uid, f := range m.failures { // drop objects that are gone, or that no plan writes any more
		if now.Sub(f.until) > reconcile.RetryMost {
			delete(m.failures, uid)
		}
	}
	f := m.failures[uid]
	if f == nil {
		f = &failure{}
		if m.failures == nil {
			m.failures = map[types.UID]*failure{}
		}
		m.failures[uid] = f
	}
	f.until, f.err = now.Add(f.next()), err
}

// recordError records the error of an action for the conditions of the CloneSet.
func (m *memory) recordError(number int, a *workload.Action, err error) {
	if err == nil || errors.Is(err, reconcile.ErrStale) || errors.Is(err, context.Canceled) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch a.Verb {
	case workload.Patch:
		m.updateError.note(number, err)
	case workload.Create:
		// Each attempt has another name; the condition must not change with it.
		m.scaleError.note(number, errors.New(strings.ReplaceAll(err.Error(), lastOf(a).Object.GetName(), "…")))
	default:
		m.scaleError.note(number, err)
	}
}
