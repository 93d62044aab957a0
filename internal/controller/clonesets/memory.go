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

// memory is what is remembered of one set. One worker at a time has it, but its
// writes are made at the same time.
type memory struct {
	reconcile.Memory
	past cloneset.Past

	mu sync.Mutex // of what writes at the same time say
	// taken are names that somebody else's objects bear, failed those of pods that could not
	// be made.
	taken, failed map[string]bool
	// unanswered are those of the failed whose create had no answer: it may have had effect.
	unanswered map[string]bool
	// collides: the name of the revision of the template is somebody else's.
	collides bool
	// scaleError and updateError are those of the actions with the lowest number.
	scaleError, updateError numbered
	// creates is when pods are made again after one could not be, refusals when an object is
	// written again that could not be.
	creates  backoff
	refusals map[types.UID]*refusal

	// What was read of objects is kept while they are the same.
	views      map[types.UID]*cloneset.Pod
	revisions  map[types.UID]*cloneset.Revision
	generation int64
	digest     string
}

// numbered is an error of one action among many.
type numbered struct {
	number int
	err    error
}

func (n *numbered) note(number int, err error) {
	if n.err == nil || number < n.number {
		*n = numbered{number, err}
	}
}

func (n numbered) text() string {
	if n.err == nil {
		return ""
	}
	return n.err.Error()
}

func (m *memory) note(what *map[string]bool, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *what == nil {
		*what = map[string]bool{}
	}
	(*what)[name] = true
}

// backoff is how long to wait after failures in a row.
type backoff struct{ last time.Duration }

func (b *backoff) fails() time.Duration {
	b.last = min(max(2*b.last, reconcile.RetryFirst), reconcile.RetryMost)
	return b.last
}

// refusal is an object that could not be written.
type refusal struct {
	backoff
	until time.Time
	err   error
}

// waits tells whether an object is to be left alone for now, because the last write of it
// failed; and with what. Others need not wait for it.
func (m *memory) waits(a *workload.Action, now time.Time) (error, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.refusals[a.Object.GetUID()]; r != nil && now.Before(r.until) {
		return r.err, true
	}
	return nil, false
}

// refused are the objects that a plan cannot wait for: their last write was refused, or has failed
// too often to be an accident.
func (m *memory) refused() map[types.UID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all map[types.UID]bool
	for uid, r := range m.refusals {
		if reconcile.Refused(r.err) || r.last >= notByAccident {
			if all == nil {
				all = make(map[types.UID]bool, len(m.refusals))
			}
			all[uid] = true
		}
	}
	return all
}

// notByAccident is how long a write must be put off that fails without being refused: after the
// fifth time.
const notByAccident = 16 * reconcile.RetryFirst

// tried notes how the write of an object went.
func (m *memory) tried(a *workload.Action, now time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := a.Object.GetUID()
	if err == nil || errors.Is(err, reconcile.ErrStale) {
		delete(m.refusals, uid)
		return
	}
	for uid, r := range m.refusals { // of objects that are gone, or that nobody wants to write any more
		if now.Sub(r.until) > reconcile.RetryMost {
			delete(m.refusals, uid)
		}
	}
	r := m.refusals[uid]
	if r == nil {
		r = &refusal{}
		if m.refusals == nil {
			m.refusals = map[types.UID]*refusal{}
		}
		m.refusals[uid] = r
	}
	r.until, r.err = now.Add(r.fails()), err
}

// tell keeps an error for the set's conditions.
func (m *memory) tell(number int, a *workload.Action, err error) {
	if err == nil || errors.Is(err, reconcile.ErrStale) || errors.Is(err, context.Canceled) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch a.Verb {
	case workload.Patch:
		m.updateError.note(number, err)
	case workload.Create:
		// Each try is for another name; what the condition says is the same.
		m.scaleError.note(number, errors.New(strings.ReplaceAll(err.Error(), lastOf(a).Object.GetName(), "…")))
	default:
		m.scaleError.note(number, err)
	}
}
