package jobs_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	controller "github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/family"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// runForever is the outcome of pods that run until they are deleted.
func runForever(*corev1.Pod) jobs.Outcome { return jobs.Outcome{} }

// TestPaused stops the process for 20 s or a minute, as SIGSTOP does, at each of its writes, while the user
// suspends the Job. The write in flight may arrive late; no other write that was decided before may be sent
// after it.
func TestPaused(t *testing.T) {
	simtest.Run(t, simtest.Seeds(60), func(w *simtest.World) {
		j := pi(8, 20)
		w.Controller(jobs.Actor, ours)
		w.Controller("kubelet", jobs.Kubelet(runForever))
		w.Faults(fault.Fault{Kind: fault.KindPause, Actor: jobs.Actor})
		w.AllowDifferentOutcomes()
		w.Create(j)
		w.Advance(10 * time.Second)
		w.Patch(j, types.MergePatchType, `{"spec":{"suspend":true}}`)
		before := len(creates(w))
		w.Advance(5 * time.Minute)
		if after := creates(w); len(after) > before+1 {
			w.Fatalf("%d pods are created after their Job was suspended, the second at step %d", len(after)-before, after[before+1].N)
		}
	})
}

// TestThrottledWrites answers the first write of each kind with 429 and Retry-After of ten minutes. client-go
// would wait inside the request: no write may do so, and another Job must be reconciled meanwhile.
func TestThrottledWrites(t *testing.T) {
	for what, match := range map[string]func(*http.Request) bool{
		"create": func(r *http.Request) bool { return r.Method == http.MethodPost },
		"status": func(r *http.Request) bool { return r.Method == http.MethodPut },
		"patch":  func(r *http.Request) bool { return r.Method == http.MethodPatch },
		"delete": func(r *http.Request) bool { return r.Method == http.MethodDelete },
	} {
		t.Run(what, func(t *testing.T) {
			simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
				first, second := pi(2, 4), pi(1, 1)
				second.Name = "second"
				rejected := 0
				w.Controller(jobs.Actor, family.Through(ours, func(r *http.Request, send family.Send) (*http.Response, error) {
					if rejected > 0 || !match(r) {
						return send(r)
					}
					rejected++
					return &http.Response{
						StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"600"}, "Content-Type": {"text/plain"}},
						Body: io.NopCloser(bytes.NewReader([]byte("too many requests"))), Request: r,
					}, nil
				}))
				w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{After: 10 * time.Second} }))
				w.AllowDifferentOutcomes()
				w.Eventually(30*time.Minute, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"))
				w.Create(first)
				w.Advance(5 * time.Second)
				w.Patch(first, types.MergePatchType, `{"spec":{"parallelism":1}}`) // the controller deletes a pod
				w.Advance(10 * time.Second)                                        // pods succeed and are released
				w.Create(second)
				w.Advance(time.Minute)
				if rejected != 1 {
					w.Fatalf("no %s was sent", what)
				}
				if o := w.View().Get("jobs.batch", "default", "second"); invariant.Condition("jobs.batch", "default", "second", "Complete", "True").Check(w.View()) != nil {
					w.Fatalf("another Job waits for a %s that may be repeated in ten minutes: %v", what, o.Object["status"])
				}
			})
		})
	}
}

// TestUnknownCompletionMode sends the controller Jobs with a completionMode that this release does not know:
// it leaves them alone and emits an Event, as upstream does. The API server of this release accepts no such
// Job, so the test changes its answers; no search of random Jobs can draw one.
func TestUnknownCompletionMode(t *testing.T) {
	simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
		w.Controller(jobs.Actor, func(ctx context.Context, config *rest.Config) error {
			run := controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Events: config})
			return family.Through(run, func(r *http.Request, send family.Send) (*http.Response, error) {
				answer, err := send(r)
				if err == nil && r.Method == http.MethodGet {
					answer.Body = renamed{answer.Body}
				}
				return answer, err
			})(ctx, config)
		})
		w.AllowDifferentOutcomes()
		w.Create(pi(1, 1))
		w.Advance(time.Minute)
		if pods := w.View().List("pods"); len(pods) > 0 {
			w.Fatalf("%d pods are created", len(pods))
		}
		if !slices.ContainsFunc(w.View().List("events"), isAbout("UnknownCompletionMode")) {
			w.Fatalf("no Event reports that the Job is left alone")
		}
	})
}

// renamed is a body with another completionMode, of the same length.
type renamed struct{ io.ReadCloser }

func (r renamed) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	copy(p, bytes.ReplaceAll(p[:n], []byte("NonIndexed"), []byte("SomeOthers")))
	return n, err
}
