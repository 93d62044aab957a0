package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/stage"
)

// job is one entry handed to a worker. Either it is to be read live (confirm),
// or decision is to be played on object.
type job struct {
	id, uid  types.UID
	key      objectKey
	confirm  bool
	object   stage.Object
	decision stage.Decision
	stages   *stage.Set // what the decision was made by

	entry *entry
}

// outcome is what became of a job.
type outcome struct {
	kind outcomeKind
	// object is the newest version the API answered with, if it did.
	object stage.Object
	// wrote is false when the stage had nothing to change.
	wrote bool
	// retryAfter is the least wait the API asked for, with failed.
	retryAfter time.Duration
	// resume is where the stage goes on when a part of it was done and another
	// one failed.
	resume stage.Resume
	// problem is why the write failed, in words for the object's user; refused
	// says that trying the same again will not help.
	problem string
	refused bool
}

type outcomeKind uint8

const (
	// played: the stage was carried out.
	played outcomeKind = iota
	// deleted: the stage was carried out and ended in a delete.
	deleted
	// outdated: the API has another version of the object, or none.
	outdated
	// failed: anything else; try again later.
	failed
	// found and absent answer a confirm.
	found
	absent
)

// pop hands out the entry that is due first. When none is due, next says when
// one will be; zero means only an event brings one.
func (t *table) pop(now time.Time) (id types.UID, next time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, next, ok = t.due.pop(now)
	if ok {
		t.entries[id].busy = true
	}
	return id, next, ok
}

// begin is called by the worker that took id, right before it acts: it decides
// again on the newest version. There is a job only if the stage that was chosen
// is still the chosen one and still due.
func (t *table) begin(now time.Time, id types.UID) (job, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[id]
	if e == nil {
		return job{}, false
	}
	j := job{id: id, uid: e.uid, key: e.key, object: e.object, stages: t.stages, entry: e}
	if !e.confirm.IsZero() && !e.confirm.After(now) {
		j.confirm = true
		return j, true
	}
	d, ours := t.decide(now, e)
	if !ours || !d.Chosen() || d.Stage != e.past.Stage || later(d.Due, e.notBefore).After(now) || !e.confirm.IsZero() {
		e.busy = false
		t.reconsider(now, e)
		return job{}, false
	}
	j.decision = d
	return j, true
}

// done takes in what became of a job and plans what is next. An object that
// went meanwhile stays gone.
func (t *table) done(now time.Time, j job, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := j.entry
	if t.entries[j.id] != e {
		return
	}
	e.busy = false
	// acted is the version the last request of the job was about.
	acted := revision(j.object.GetResourceVersion())
	same := o.kind == found && o.object != nil && revision(o.object.GetResourceVersion()) == e.version
	if o.object != nil {
		acted = revision(o.object.GetResourceVersion())
		if acted > e.version {
			t.replace(now, e, o.object, acted)
		}
	}
	if o.resume.Stage != "" {
		e.past.Resume = o.resume
	}
	switch o.kind {
	case played, deleted:
		e.refusal, e.told = "", 0
		e.failures, e.notBefore = 0, time.Time{}
		e.past = stage.Past{Played: e.past.Played + 1, Last: j.decision.Stage, LastAt: now}
		if !o.wrote && o.kind == played {
			e.past.Idle = j.decision.ResourceVersion
		}
		if o.kind == deleted && e.version == acted {
			e.confirm = now.Add(confirmDelete)
		}
	case outdated:
		e.refusal = o.problem
		// Something newer is on its way; if it has come already, decide on it.
		if e.version == acted {
			e.confirm = now.Add(confirmAfter)
		}
	case failed:
		e.failures++
		e.notBefore = now.Add(max(backoff(t.seed, e.uid, e.failures), o.retryAfter))
		if o.refused {
			t.tell(e, j.decision.Stage, o.problem)
		}
	case found:
		e.confirm = time.Time{}
		if !same || e.refusal == "" {
			e.failures = 0
			break
		}
		// There is nothing newer, so it was not that.
		e.failures++
		e.notBefore = now.Add(backoff(t.seed, e.uid, e.failures))
		if e.failures > 1 {
			t.tell(e, e.past.Stage, e.refusal)
		}
	case absent:
		t.forgetLocked(now, j.id)
		return
	}
	if o.kind == failed && j.confirm {
		e.confirm = e.notBefore
	}
	t.reconsider(now, e)
}

// backoff is the wait after n failures in a row.
func backoff(seed uint64, uid types.UID, n int) time.Duration {
	wait := backoffMost
	if n < 12 {
		wait = min(backoffFirst<<(n-1), backoffMost)
	}
	return time.Duration(float64(wait) * (0.5 + 0.5*stage.Draw(seed, uid, "backoff", uint64(n))))
}
