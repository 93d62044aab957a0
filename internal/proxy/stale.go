package proxy

import (
	"net/http"
	"net/url"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// serveOld completes the decision about a list that permits an older state.
func (q *request) serveOld(d inject.Decision) inject.Decision {
	c := &q.call
	if !c.Older {
		return d
	}
	r := inject.ListRead{
		Actor: q.listener.name, Resource: c.Resource, Namespace: c.Namespace, Watch: c.Watch, ResourceVersion: c.FromRevision,
		Steps: func() []history.Step { return q.run.Record().Steps }, Newest: q.run.Revision(),
	}
	if b := q.listener.lagging(q.run); b != nil {
		r.Other, r.OtherRevision = b.fault, b.revision
	}
	d = q.listener.decideList(q.run, d, r)
	q.asOf = d.AsOf
	return d
}

func (l *Listener) decideList(r *Run, d inject.Decision, list inject.ListRead) inject.Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	return l.oldLists.Decide(d, list)
}

// sendAsOf sends a list as of an older revision; resp is nil if the server does not have that state any more.
func (q *request) sendAsOf(out *http.Request) (resp *http.Response, err error) {
	older := out.Clone(out.Context())
	if older.URL, err = url.Parse(wire.AsOf(out.URL.String(), q.asOf)); err != nil {
		return nil, err
	}
	resp, err = q.next.RoundTrip(older)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, nil
	}
	q.step.Revision = q.asOf
	return resp, nil
}
