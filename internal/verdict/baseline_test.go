package verdict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

type content = map[string]any

// world returns an owner and two pods of it, as one run might have left them.
func world(run int, phase string) []verdict.Object {
	uid := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", run, n) }
	objects := []verdict.Object{{Resource: "configmaps", Content: content{
		"metadata": content{"name": "web", "namespace": "default", "uid": uid(0), "resourceVersion": fmt.Sprint(1000 + run), "creationTimestamp": "2000-01-01T00:00:00Z"},
		"data":     content{"replicas": "2", "drawn": fmt.Sprint("seed-", run)},
	}}}
	for n := range 2 {
		name := fmt.Sprintf("web-%x%x", run, 7*n+run)
		objects = append(objects, verdict.Object{Resource: "pods", Content: content{
			"metadata": content{
				"name": name, "namespace": "default", "generateName": "web-", "uid": uid(n + 1),
				"labels":          content{"me": name, "rehearse-k8s.github.io/touched": fmt.Sprint(run)},
				"ownerReferences": []any{content{"kind": "ConfigMap", "name": "web", "uid": uid(0), "controller": true}},
			},
			"status": content{"phase": phase, "startTime": fmt.Sprintf("2000-01-01T00:00:%02dZ", run), "index": int64(n)},
		}})
	}
	// Runs list their objects in different orders.
	if run%2 == 0 {
		objects[1], objects[2] = objects[2], objects[1]
	}
	return objects
}

// TestSameState: runs that differ in names, UIDs, times and random values end in the same state.
func TestSameState(t *testing.T) {
	e := verdict.NewBaseline([]verdict.State{verdict.NewState(world(1, "Running")), verdict.NewState(world(2, "Running")), verdict.NewState(world(3, "Running"))})
	for run := range 9 {
		if err := e.Compare(verdict.NewState(world(run, "Running"))); err != nil {
			t.Errorf("run %d: %v", run, err)
		}
	}
}

// deployed returns a Deployment with its ReplicaSet and a pod of it. In the second world, the ReplicaSet of
// an earlier Deployment still existed when this one's was created.
func deployed(run int, hash, image string) []verdict.Object {
	owned := func(kind, name, by string, n int) content {
		return content{
			"name": name, "namespace": "default", "uid": fmt.Sprintf("%08d-0000-4000-8000-%012d", run, n), "labels": content{"app": "web", "pod-template-hash": hash},
			"ownerReferences": []any{content{"kind": kind, "name": by, "uid": fmt.Sprintf("%08d-0000-4000-8000-%012d", run, n-1), "controller": true}},
		}
	}
	status := content{"conditions": []any{content{"type": "Progressing", "status": "True", "message": fmt.Sprintf("ReplicaSet %q has successfully progressed.", "web-"+hash)}}}
	if run > 1 {
		status["collisionCount"] = int64(run - 1)
	}
	pod := owned("ReplicaSet", fmt.Sprintf("web-%s-%d", hash, run), "web-"+hash, 2)
	return []verdict.Object{
		{Resource: "deployments.apps", Content: content{"metadata": content{"name": "web", "namespace": "default", "uid": fmt.Sprintf("%08d-0000-4000-8000-%012d", run, 0)}, "status": status}},
		{Resource: "replicasets.apps", Content: content{"metadata": owned("Deployment", "web-"+hash, "web", 1), "spec": content{"selector": content{"pod-template-hash": hash}, "image": image}}},
		{Resource: "pods", Content: content{"metadata": pod, "spec": content{"image": image}}},
	}
}

// TestDefaultPhaseOfClaim: the API server stores the default phase of a claim only with a later write, so a claim without
// a phase is one that is pending.
func TestDefaultPhaseOfClaim(t *testing.T) {
	claim := func(status content) verdict.State {
		return verdict.NewState([]verdict.Object{{Resource: "persistentvolumeclaims", Content: content{"metadata": content{"name": "data", "namespace": "default"}, "status": status}}})
	}
	e := verdict.NewBaseline([]verdict.State{claim(content{}), claim(content{})})
	if err := e.Compare(claim(content{"phase": "Pending"})); err != nil {
		t.Error(err)
	}
	if err := e.Compare(claim(content{"phase": "Bound"})); err == nil {
		t.Error("a claim that is bound equals one that is pending")
	}
}

// TestPredecessor: a reference to the predecessor of an existing owner is no difference; one to an owner that does not exist is.
func TestPredecessor(t *testing.T) {
	const first, second = "10000000-0000-4000-8000-000000000001", "20000000-0000-4000-8000-000000000002"
	state := func(owner string, objects ...verdict.Object) verdict.State {
		ref := content{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": owner}
		return verdict.NewState(append(objects, verdict.Object{Resource: "pods", Content: content{
			"kind": "Pod", "metadata": content{"name": "a", "namespace": "default", "ownerReferences": []any{ref}},
		}}))
	}
	job := verdict.Object{Resource: "jobs.batch", Content: content{"kind": "Job", "metadata": content{"name": "job", "namespace": "default", "uid": second}}}
	e := verdict.NewBaseline([]verdict.State{state(second, job), state(second, job)})
	if err := e.Compare(state(first, job)); err != nil {
		t.Error(err)
	}
	if err := verdict.NewBaseline([]verdict.State{state(second, job)}).Compare(state(first)); err == nil {
		t.Error("an owner that does not exist was not reported")
	}
}

// TestTemplateHashCollision: a collision of ReplicaSet names is no difference; a different template is one.
func TestTemplateHashCollision(t *testing.T) {
	e := verdict.NewBaseline([]verdict.State{verdict.NewState(deployed(1, "7d9f6c8b5", "web:1")), verdict.NewState(deployed(1, "7d9f6c8b5", "web:1"))})
	if err := e.Compare(verdict.NewState(deployed(2, "5f4c9d7ab", "web:1"))); err != nil {
		t.Errorf("a ReplicaSet of another hash: %v", err)
	}
	// The label is compared unchanged on objects that no Deployment created.
	labelled := func(hash string) verdict.State {
		return verdict.NewState([]verdict.Object{{Resource: "pods", Content: content{"metadata": content{"name": "bare", "namespace": "default", "labels": content{"pod-template-hash": hash}}}}})
	}
	if err := verdict.NewBaseline([]verdict.State{labelled("1"), labelled("1")}).Compare(labelled("2")); err == nil {
		t.Error("a label of another owner was not compared")
	}
	err := e.Compare(verdict.NewState(deployed(2, "5f4c9d7ab", "web:2")))
	if want := `pods of default/ReplicaSet web-<hash>: spec.image is "web:2"; without faults "web:1"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another image: want %q, got %v", want, err)
	}
}

// TestDifferences: each difference is reported with the expected value.
func TestDifferences(t *testing.T) {
	e := verdict.NewBaseline([]verdict.State{verdict.NewState(world(1, "Running")), verdict.NewState(world(2, "Running"))})
	for what, c := range map[string]struct {
		change func([]verdict.Object) []verdict.Object
		says   string
	}{
		"a field": {func(o []verdict.Object) []verdict.Object {
			o[1].Content["status"].(content)["phase"] = "Pending"
			return o
		}, `pods of default/ConfigMap web: status.phase is "Pending"; without faults "Running"`},
		"one too few":  {func(o []verdict.Object) []verdict.Object { return o[:2] }, "pods of default/ConfigMap web: 1 at the end; without faults 2"},
		"one too many": {func(o []verdict.Object) []verdict.Object { return append(o, world(7, "Running")[1]) }, "3 at the end; without faults 2"},
		"something new": {func(o []verdict.Object) []verdict.Object {
			return append(o, verdict.Object{Resource: "secrets", Content: content{"metadata": content{"name": "s", "namespace": "default"}}})
		}, "secrets default/s: 1 at the end; without faults 0"},
		"a field more": {func(o []verdict.Object) []verdict.Object {
			o[0].Content["data"].(content)["more"] = "x"
			return o
		}, `data.more is "x"; without faults it is not set`},
		"a finalizer": {func(o []verdict.Object) []verdict.Object {
			o[0].Content["metadata"].(content)["finalizers"] = []any{"hold"}
			return o
		}, `metadata.finalizers[0] is "hold"`},
	} {
		err := e.Compare(verdict.NewState(c.change(world(5, "Running"))))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: want %q, got %v", what, c.says, err)
		}
	}
}

// TestVaryingCounts: if the number of objects differs between runs without faults, other runs are not
// compared by it.
func TestVaryingCounts(t *testing.T) {
	e := verdict.NewBaseline([]verdict.State{verdict.NewState(world(1, "Running")), verdict.NewState(world(2, "Running")[:2])})
	if err := e.Compare(verdict.NewState(world(3, "Running")[:1])); err != nil {
		t.Error(err)
	}
	if err := (*verdict.Baseline)(nil).Compare(verdict.NewState(world(1, "x"))); err != nil {
		t.Error(err)
	}
	if verdict.NewBaseline(nil) != nil {
		t.Error("something was learned of nothing")
	}
}

// TestGeneratedNames: names that are derived from a UID or from the seed are replaced.
func TestGeneratedNames(t *testing.T) {
	named := func(names ...string) verdict.State {
		var objects []verdict.Object
		for _, name := range names {
			resource, name, _ := strings.Cut(name, " ")
			objects = append(objects, verdict.Object{Resource: resource, Content: content{"metadata": content{"name": name, "namespace": "default"}}})
		}
		return verdict.NewState(objects)
	}
	uid := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }
	e := verdict.NewBaseline([]verdict.State{
		named("secrets s-"+uid(1), "configmaps drawn-1", "configmaps fixed"),
		named("secrets s-"+uid(2), "configmaps drawn-2", "configmaps fixed"),
	})
	if err := e.Compare(named("secrets s-"+uid(3), "configmaps drawn-3", "configmaps fixed")); err != nil {
		t.Error(err)
	}
	for says, s := range map[string]verdict.State{
		"secrets default/s-<uid>: 2 at the end; without faults 1":                       named("secrets s-"+uid(3), "secrets s-"+uid(4), "configmaps drawn-3", "configmaps fixed"),
		"configmaps whose names differ from run to run: 2 at the end; without faults 1": named("secrets s-"+uid(3), "configmaps drawn-3", "configmaps drawn-4", "configmaps fixed"),
		"configmaps default/fixed: 0 at the end; without faults 1":                      named("secrets s-"+uid(3), "configmaps drawn-3"),
	} {
		if err := e.Compare(s); err == nil || err.Error() != says {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

// TestConditions: type, status and reason of a condition are compared; its position and message are not.
func TestConditions(t *testing.T) {
	with := func(conditions ...any) verdict.State {
		return verdict.NewState([]verdict.Object{{Resource: "jobs.batch", Content: content{
			"metadata": content{"name": "pi", "namespace": "default"}, "status": content{"conditions": conditions},
		}}})
	}
	is := func(kind, status, reason, message string) any {
		return content{"type": kind, "status": status, "reason": reason, "message": message}
	}
	ready, done := is("Ready", "True", "AllReady", "all of a, b"), is("Done", "False", "Busy", "")
	e := verdict.NewBaseline([]verdict.State{with(ready, done), with(ready, done)})
	if err := e.Compare(with(done, is("Ready", "True", "AllReady", "all of c"))); err != nil {
		t.Error(err)
	}
	for says, s := range map[string]verdict.State{
		`status.conditions.Done.status is "True"; without faults "False"`:      with(ready, is("Done", "True", "Busy", "")),
		`status.conditions.Ready.reason is "Lucky"; without faults "AllReady"`: with(is("Ready", "True", "Lucky", ""), done),
		`status.conditions.Done.reason is ""; without faults "Busy"`:           with(ready),
		`status.conditions.More.reason is "x"; without faults it is not set`:   with(ready, done, is("More", "True", "x", "")),
	} {
		if err := e.Compare(s); err == nil || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}
