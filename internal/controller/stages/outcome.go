package stages

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/stage"
)

// job is one entry that a worker processes. The worker either reads it live (confirm) or carries out decision
// on object.
type job struct {
	id, uid  types.UID
	key      objectKey
	confirm  bool
	object   stage.Object
	decision stage.Decision
	stages   *stage.Set // the stages that the decision is based on

	entry *entry
}

// outcome is the result of a job.
type outcome struct {
	kind outcomeKind
	// object is the newest version that the API has returned, if any.
	object stage.Object
	// wrote is false if the stage did not change anything.
	wrote bool
	// retryAfter is the minimal wait that the API has requested, with failed.
	retryAfter time.Duration
	// stopped is true if a part of the stage was carried out and the operation step failed.
	stopped bool
	step    int
	// problem is why the write failed, for the user. permanent: the same request will not succeed later.
	// answered: the API failed the request with an internal error, as when a webhook crashes.
	problem             string
	permanent, answered bool
	// overran is true if the stage has exceeded its budget.
	overran bool
}

type outcomeKind uint8

const (
	// played: the stage was carried out.
	played outcomeKind = iota
	// deleted: the stage was carried out and ended in a delete.
	deleted
	// outdated: the API has another version of the object, or none.
	outdated
	// failed: any other error; the stage is tried again later.
	failed
	// found and absent are the outcomes of a confirm.
	found
	absent
)

// pop removes and returns the entry that is due first. If none is due, next is when one will be; zero if only
// an event can make one due.
func (t *table) pop(now time.Time) (id types.UID, next time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, next, ok = t.due.pop(now)
	if ok {
		t.entries[id].busy = true
	}
	return id, next, ok
}

// begin decides again on the newest version. The worker that took id calls it right before it acts. There is a
// job only if the chosen stage is still the same and still due.
func (t *table) begin(now time.Time, id types.UID) (job, bool) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		e := t.entries[id]
		if e == nil {
			return job{}, false
		}
		j := job{id: id, uid: e.uid, key: e.key, object: e.object, stages: t.stages, entry: e}
		if !e.confirm.IsZero() && !e.confirm.After(now) {
			j.confirm = true
			return j, true
		}
		q := t.inputOf(e)
		q.listed = false // its delay is fixed now
		t.mu.Unlock()
		d := q.decide(now)
		t.mu.Lock()
		if t.entries[id] != e || e.generation != q.generation || t.stages != q.stages {
			continue
		}
		if !q.ours || !d.Chosen() || d.Stage != e.past.Stage || e.dueAt(&d).After(now) || !e.confirm.IsZero() {
			e.busy = false
			t.reconsider(e)
			return job{}, false
		}
		j.decision = d
		return j, true
	}
}

// done records the outcome of a job and plans the next. An object that was deleted meanwhile stays deleted.
func (t *table) done(now time.Time, j job, o outcome) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	e := j.entry
	if t.entries[j.id] != e {
		// The pod was deleted during the job, which may have assigned addresses to it. No other event will release them.
		if t.entries[j.id] == nil && j.key.kind == stage.KindPod {
			t.podChanged(j.uid, nil)
		}
		return
	}
	e.busy = false
	// acted is the version that the last request of the job was for.
	acted := revision(j.object.GetResourceVersion())
	same := o.kind == found && o.object != nil && revision(o.object.GetResourceVersion()) == e.version
	if o.object != nil {
		known := acted
		acted = revision(o.object.GetResourceVersion())
		// If a live read that began after a version was known shows an older one, the store of the API was
		// restored: revisions count from there.
		restored := o.kind == found && known == e.version && acted < e.version && known != unordered
		if acted > e.version || restored {
			t.replace(e, o.object, acted)
		}
	}
	if o.stopped {
		e.past.Resume = j.decision.Stopped(o.step, j.object, o.object)
	}
	switch o.kind {
	case played, deleted:
		e.rejection = ""
		delete(e.reported, j.decision.Stage)
		e.failures, e.rejections, e.notBefore = 0, 0, time.Time{}
		e.past = e.past.After(&j.decision, now, o.wrote || o.kind == deleted)
		if o.kind == deleted && e.version == acted {
			e.confirm = now.Add(confirmDelete)
		}
	case outdated:
		e.rejection, e.rejectedStage = o.problem, j.decision.Stage
		// A newer version will arrive; if it has arrived already, decide on it.
		if e.version == acted {
			e.confirm = now.Add(confirmAfter)
		}
	case failed:
		if o.overran && j.stages != t.stages {
			break // the stage may have been corrected meanwhile: it is tried again
		}
		e.failures++
		e.notBefore, e.waits = now.Add(max(backoff(t.seed, e.uid, e.failures), o.retryAfter)), ""
		if o.permanent {
			t.reportTrouble(e, j.decision.Stage, o.problem)
		}
		if o.overran {
			t.overrun(e, j.decision.Stage, o.problem)
		}
		if o.permanent || o.answered {
			t.rejected(e, j.decision.Stage)
		}
	case found:
		e.confirm = time.Time{}
		if !same || e.rejection == "" {
			e.failures = 0
			break
		}
		// There is no newer version, so the API has rejected the write for another reason.
		e.failures++
		e.notBefore, e.waits = now.Add(backoff(t.seed, e.uid, e.failures)), ""
		if e.failures > 1 {
			t.reportTrouble(e, e.rejectedStage, e.rejection)
			t.rejected(e, e.rejectedStage)
		}
	case absent:
		t.forgetLocked(j.id)
		return
	}
	if o.kind == failed && j.confirm {
		e.confirm = e.notBefore
	}
	t.reconsider(e)
}

// mostRejections is how often in a row the API may reject a stage of an object before the engine gives up the
// rest of the stage and draws a stage again.
const mostRejections = 3

// rejected records that the API has rejected a stage. Only that stage waits: another one, which a deletion may
// require, does not.
func (t *table) rejected(e *entry, stage string) {
	e.waits = stage
	if e.rejections++; e.rejections%mostRejections == 0 {
		e.past = e.past.GivenUp()
	}
}

// backoff returns the wait after n consecutive failures.
func backoff(seed uint64, uid types.UID, n int) time.Duration {
	wait := backoffMost
	if n < 12 {
		wait = min(backoffFirst<<(n-1), backoffMost)
	}
	return time.Duration(float64(wait) * (0.5 + 0.5*stage.Draw(seed, uid, "backoff", uint64(n))))
}
