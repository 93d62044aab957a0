package report_test

import (
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// recorder writes runs by hand.
type recorder struct {
	*history.Run
	at    time.Duration
	truth int64
}

func record(faults ...string) *recorder {
	return &recorder{Run: &history.Run{Header: history.Header{Format: history.Format, Test: "TestJob", Seed: 7, Faults: faults}}, truth: 10}
}

func (r *recorder) add(s history.Step, causes ...int) int {
	s.At, s.Truth, s.Causes = r.at, r.truth, causes
	return r.Add(s).N
}

func thing(resource, name string) history.Object {
	return history.Object{Resource: resource, Namespace: "default", Name: name}
}

// write records a write that changes an object.
func (r *recorder) write(actor, verb, resource, name, faulty, reply string, causes ...int) int {
	before := r.truth
	if verb == "create" {
		before = 0
	}
	r.truth++
	code := 200
	if verb == "create" {
		code = 201
	}
	return r.add(history.Step{Kind: history.Request, Actor: actor, Verb: verb, Object: thing(resource, name), Code: code,
		Revision: r.truth, Before: before, Fault: faulty, Reply: reply}, causes...)
}

// informer lists and watches a resource.
func (r *recorder) informer(actor, resource, query string, stream int, cause int) {
	all := history.Object{Resource: resource}
	list := "limit=500"
	if query != "" {
		list = query + "&" + list
	}
	n := r.add(history.Step{Kind: history.Request, Actor: actor, Verb: "list", Object: all, Query: list, Code: 200, Revision: r.truth}, cause)
	r.add(history.Step{Kind: history.Request, Actor: actor, Verb: "watch", Object: all, Query: query, Code: 200, Stream: stream}, n)
}

func (r *recorder) frame(actor, typ, resource, name string, stream int, revision int64, faulty string, cause int) int {
	return r.add(history.Step{Kind: history.Frame, Actor: actor, Type: typ, Object: thing(resource, name), Stream: stream, Revision: revision, Fault: faulty}, cause)
}

func (r *recorder) wait(d time.Duration) {
	r.at += d
	r.add(history.Step{Kind: history.Time})
}

func (r *recorder) fail(oracle, message string) *history.Run {
	r.Failure = &history.Failure{Oracle: oracle, Message: message, Step: len(r.Steps) - 1, At: r.at}
	return r.Run
}

func runs() map[string]*history.Run {
	return map[string]*history.Run{"lag": lag(), "lost": lostEvent(), "answer": lostAnswer(), "replicas": replicas(), "passing": passing(), "crash": crash(),
		"interference": interference()}
}

// lag: the events of pods are delayed, and the controller creates a second pod.
func lag() *history.Run {
	const late = "lag actor=job resource=pods nth=2"
	r := record(late)
	start := r.add(history.Step{Kind: history.Start, Actor: "job"})
	r.informer("job", "jobs.batch", "", 1, start)
	r.informer("job", "pods", "", 2, start)
	job := r.write("user", "create", "jobs.batch", "a", "", "")
	seen := r.frame("job", "ADDED", "jobs.batch", "a", 1, 11, "", job)
	a1 := r.write("job", "create", "pods", "a-1", "", "", seen)
	r.frame("job", "ADDED", "pods", "a-1", 2, 12, "", a1)
	running := r.write("kubelet", "patch", "pods", "a-1", "", "", a1)
	r.add(history.Step{Kind: history.Fault, Actor: "job", Fault: late, Note: "the watch of pods is held until 1 write has had effect"}, running)
	done := r.write("kubelet", "patch", "pods", "a-1", "", "", running)
	r.wait(90 * time.Second)
	label := r.write("user", "patch", "jobs.batch", "a", "", "")
	seen = r.frame("job", "MODIFIED", "jobs.batch", "a", 1, r.truth, "", label)
	a2 := r.write("job", "create", "pods", "a-2", "", "", seen)
	run := r.fail("at most 1 pod of Job default/a", "2 pods: a-1, a-2")
	r.frame("job", "MODIFIED", "pods", "a-1", 2, 13, late, running)
	r.frame("job", "MODIFIED", "pods", "a-1", 2, 14, late, done)
	r.frame("job", "ADDED", "pods", "a-2", 2, 16, late, a2)
	return run
}

// lostEvent: the deletion of a pod is never delivered, and the controller creates no other pod.
func lostEvent() *history.Run {
	const gone = "lose-event actor=cloneset resource=pods object=default/web-1 nth=2"
	r := record(gone)
	start := r.add(history.Step{Kind: history.Start, Actor: "cloneset"})
	r.informer("cloneset", "pods", "labelSelector=app=web", 1, start)
	web := r.write("cloneset", "create", "pods", "web-1", "", "")
	r.frame("cloneset", "ADDED", "pods", "web-1", 1, 11, "", web)
	other := r.write("user", "create", "pods", "not-selected", "", "")
	away := r.write("user", "delete", "pods", "web-1", "", "", other)
	r.frame("cloneset", "DELETED", "pods", "web-1", 1, 13, gone, away)
	r.add(history.Step{Kind: history.Frame, Actor: "cloneset", Type: "BOOKMARK", Object: history.Object{Resource: "pods"}, Stream: 1, Revision: 13}, away)
	r.wait(5 * time.Minute)
	return r.fail("1 pod of CloneSet default/web is ready within 5m", "no pod")
}

// lostAnswer: the answer to a create is lost, and the controller creates again.
func lostAnswer() *history.Run {
	r := record("lost-answer actor=job verb=create nth=1")
	start := r.add(history.Step{Kind: history.Start, Actor: "job"})
	r.informer("job", "pods", "", 1, start)
	first := r.write("job", "create", "pods", "a-x7k2p", "lost-answer actor=job verb=create nth=1", "lost")
	r.frame("job", "ADDED", "pods", "a-x7k2p", 1, 11, "", first)
	r.write("job", "create", "pods", "a-m4q9z", "", "", first)
	return r.fail("at most 1 pod of Job default/a", "2 pods")
}

// replicas: two leaders at once, one of them with a conflict and a late answer.
func replicas() *history.Run {
	r := record("overlap actor=operator nth=1")
	zero := r.add(history.Step{Kind: history.Start, Actor: "operator/0"})
	r.informer("operator/0", "widgets.example.com", "", 1, zero)
	one := r.add(history.Step{Kind: history.Start, Actor: "operator/1", Fault: "overlap actor=operator nth=1", Note: "a second instance begins"}, zero)
	r.informer("operator/1", "widgets.example.com", "", 2, one)
	w := r.write("user", "create", "widgets.example.com", "a-widget-with-quite-a-long-name-1", "", "")
	r.frame("operator/0", "ADDED", "widgets.example.com", "a-widget-with-quite-a-long-name-1", 1, 11, "", w)
	r.frame("operator/1", "ADDED", "widgets.example.com", "a-widget-with-quite-a-long-name-1", 2, 11, "", w)
	late := r.write("operator/0", "update", "widgets.example.com", "a-widget-with-quite-a-long-name-1", "late-answer actor=operator", "late", w)
	r.add(history.Step{Kind: history.Request, Actor: "operator/1", Verb: "update", Subresource: "status", Code: 409, Guarded: true,
		Object: thing("widgets.example.com", "a-widget-with-quite-a-long-name-1")}, w)
	r.add(history.Step{Kind: history.Answer, Actor: "operator/0"}, late)
	r.add(history.Step{Kind: history.Cut, Actor: "operator/1", Stream: 2})
	r.add(history.Step{Kind: history.Crash, Actor: "operator/0"}, one)
	gc := r.write("gc", "delete", "widgets.example.com", "a-widget-with-quite-a-long-name-1", "", "")
	r.frame("operator/1", "MODIFIED", "widgets.example.com", "a-widget-with-quite-a-long-name-1", 2, r.truth, "repeat-event resource=widgets.example.com", gc)
	r.Inconclusive = "the budget of 100 steps ran out"
	return r.Run
}

// passing: a run without faults.
func passing() *history.Run {
	r := record()
	start := r.add(history.Step{Kind: history.Start, Actor: "job"})
	r.informer("job", "pods", "", 1, start)
	pod := r.write("job", "create", "pods", "a-1", "", "", start)
	r.frame("job", "ADDED", "pods", "a-1", 1, 11, "", pod)
	return r.Run
}

// crash: the new instance has not yet listed what the old one created.
func crash() *history.Run {
	r := record("crash-after actor=job nth=1")
	start := r.add(history.Step{Kind: history.Start, Actor: "job"})
	r.informer("job", "pods", "", 1, start)
	first := r.write("job", "create", "pods", "a-1", "crash-after actor=job nth=1", "lost")
	down := r.add(history.Step{Kind: history.Crash, Actor: "job"}, first)
	again := r.add(history.Step{Kind: history.Start, Actor: "job"}, down)
	r.informer("job", "pods", "", 2, again)
	r.write("job", "create", "pods", "a-2", "", "", again)
	return r.fail("at most 1 pod of Job default/a", "2 pods")
}

// interference: a write by another user violates the invariant.
func interference() *history.Run {
	r := record("delete actor=job nth=1")
	start := r.add(history.Step{Kind: history.Start, Actor: "job"})
	r.informer("job", "pods", "", 1, start)
	pod := r.write("job", "create", "pods", "a-1", "", "", start)
	r.write("other-user", "delete", "pods", "a-1", "delete actor=job nth=1", "", pod)
	return r.fail("the pod of Job default/a is never deleted", "it was")
}
