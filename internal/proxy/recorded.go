package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// Recorded returns a transport that records writes as those of an actor without a listener and
// without faults: a user, or the kubelets.
func (p *Proxy) Recorded(actor string, next http.RoundTripper) http.RoundTripper {
	return &recorder{proxy: p, actor: actor, next: next}
}

// Because marks the requests of ctx as effects of a fault, for the transports of Recorded.
func Because(ctx context.Context, fault string) context.Context {
	return context.WithValue(ctx, becauseKey{}, because{fault: fault})
}

// LongAfter marks the requests of ctx as reactions to what a client does long after a fault: they have its text, but LastFault does not
// report them. Otherwise a client that provokes them again and again would prolong its run without end.
func LongAfter(ctx context.Context, fault string) context.Context {
	return context.WithValue(ctx, becauseKey{}, because{fault, true})
}

// because is the fault that causes a request.
type because struct {
	fault     string
	longAfter bool
}

type becauseKey struct{}

type recorder struct {
	proxy *Proxy
	actor string
	next  http.RoundTripper
}

// longestWrite is the time that an actor without a listener waits for the answer to a write: the
// default limit of the API server.
const longestWrite = time.Minute

// RoundTrip implements http.RoundTripper.
func (t *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	run := t.proxy.run.Load()
	if run == nil || r.Method == http.MethodGet {
		return t.next.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	call := wire.DescribeCall(r.Method, r.URL, r.Header, body)
	if !call.Item("").Write {
		return t.next.RoundTrip(r)
	}
	step := call.Step(t.actor)
	cause, _ := r.Context().Value(becauseKey{}).(because)
	step.Fault = cause.fault
	body, header, permit, denied := run.guarded(&call, r.URL, r.Header, body)
	if denied != nil {
		a := failed(denied)
		step.Code = a.Code
		run.addBecause(step, cause)
		return response(a, r), nil
	}
	if permit.Only != "" {
		r = r.Clone(r.Context())
		r.Header, r.Body, r.ContentLength = header, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	n := run.addBecause(step, cause) // its event may arrive before its answer
	// A write that was sent takes effect even if the client disconnects, so it must be recorded.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), longestWrite)
	defer cancel()
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err == nil && permit.denies(resp.StatusCode) {
		_ = resp.Body.Close()
		resp = response(failed(permit.Denied), r)
	}
	if err != nil {
		step.Note = err.Error()
		run.complete(n, step)
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	step.Code = resp.StatusCode
	run.describe(n, &step, resp.Header.Get("Content-Type"), answer)
	run.complete(n, step)
	return resp, nil
}

// describe adds the content of the answer to step n, a write.
func (r *Run) describe(n int, step *history.Step, contentType string, body []byte) {
	if step.Code/100 != 2 {
		return
	}
	o, revision, err := wire.ReadAnswer(contentType, body)
	if err != nil {
		return
	}
	if step.Name == "" {
		step.Name = o.Name
	}
	step.UID = o.UID
	if step.Code == http.StatusCreated && step.Subresource == "" && o.UID != "" && r.hooks.Created != nil {
		r.hooks.Created(step.Object)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	step.Revision, step.Before = revision, r.before(n, step.Object, revision)
}
