package job_test

import (
	"fmt"
	batchv1 "k8s.io/api/batch/v1"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/job"
)

// run simulates a run of one Job. Each method is a write, after which the invariants are checked, as simtest
// does.
type run struct {
	*viewtest.Script
	invariants invariant.Set
	object     map[string]any
	pods       map[string]map[string]any
	violations []string
}

func newRun(spec map[string]any) *run {
	r := &run{Script: viewtest.NewScript(), invariants: job.Invariants(invariant.Owner{Kind: "Job", Namespace: "default", Name: "pi"}), pods: map[string]map[string]any{}}
	r.check()
	r.create("J", spec)
	return r
}

// create creates the Job, or another one with its name; the controller observes it.
func (r *run) create(uid string, spec map[string]any) {
	r.object = map[string]any{"metadata": map[string]any{"namespace": "default", "name": "pi", "uid": uid}, "spec": spec, "status": map[string]any{}}
	r.deliver(r.wrote("user", "create", "jobs.batch", "", "pi", uid, 0))
}

// wrote records a write, sets the revision of its object, and checks the invariants.
func (r *run) wrote(actor, verb, resource, sub, name, uid string, cause int) int {
	n := r.Add(history.Step{Kind: history.Request, Actor: actor, Verb: verb, Code: 200, Before: 1, Revision: r.Revision + 1, Subresource: sub,
		Object: history.Object{Resource: resource, Namespace: "default", Name: name, UID: uid}}, cause)
	of := r.object
	if resource == "pods" {
		of = r.pods[name]
	}
	if of != nil {
		of["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(r.Revision)
	}
	r.check()
	return n
}

// check lists copies of the current objects and checks the invariants.
func (r *run) check() {
	r.Objects = map[string][]*unstructured.Unstructured{}
	if r.object != nil {
		r.Objects["jobs.batch"] = []*unstructured.Unstructured{(&unstructured.Unstructured{Object: r.object}).DeepCopy()}
	}
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		r.Objects["pods"] = append(r.Objects["pods"], (&unstructured.Unstructured{Object: r.pods[name]}).DeepCopy())
	}
	for _, i := range r.invariants.Always {
		if err := i.Check(r); err != nil {
			text := i.Name + ": " + err.Error()
			if !slices.Contains(r.violations, text) {
				r.violations = append(r.violations, text)
			}
		}
	}
}

// see delivers the event of a write of the Job to the controller and returns the step.
func (r *run) deliver(write int) int { return r.Frame(2, write) }

// pod makes the controller create a pod, decided at a step. An index of "" means no index.
func (r *run) pod(name, index string, decided int) {
	annotations := map[string]any{}
	if index != "" {
		annotations["batch.kubernetes.io/job-completion-index"] = index
	}
	r.pods[name] = map[string]any{
		"metadata": map[string]any{
			"namespace": "default", "name": name, "uid": "uid-" + name, "annotations": annotations,
			"finalizers": []any{batchv1.JobTrackingFinalizer},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": r.object["metadata"].(map[string]any)["uid"], "controller": true,
			}},
		},
		"status": map[string]any{"phase": "Pending"},
	}
	r.wrote("c", "create", "pods", "", name, "uid-"+name, decided)
}

// orphan makes the user create a pod without a controller, or remove its controller. Its label is the one that
// the Job's selector requires.
func (r *run) orphan(name string) int {
	r.pods[name] = map[string]any{
		"metadata": map[string]any{"namespace": "default", "name": name, "uid": "uid-" + name, "labels": map[string]any{"job": "pi"}},
		"status":   map[string]any{"phase": "Running"},
	}
	return r.wrote("user", "create", "pods", "", name, "uid-"+name, 0)
}

// adopt makes the controller adopt a pod.
func (r *run) adopt(name string) {
	metadata := r.pods[name]["metadata"].(map[string]any)
	metadata["finalizers"] = []any{batchv1.JobTrackingFinalizer}
	metadata["ownerReferences"] = []any{map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": r.object["metadata"].(map[string]any)["uid"], "controller": true,
	}}
	r.wrote("c", "patch", "pods", "", name, "uid-"+name, 0)
}

func (r *run) phase(name, phase string) {
	r.pods[name]["status"] = map[string]any{"phase": phase}
	r.wrote("kubelet", "update", "pods", "status", name, "uid-"+name, 0)
}

func (r *run) finalizers(actor, name string, finalizers ...any) {
	r.pods[name]["metadata"].(map[string]any)["finalizers"] = finalizers
	r.wrote(actor, "patch", "pods", "", name, "uid-"+name, 0)
}

// remove makes an actor delete a pod, which keeps its finalizer.
func (r *run) remove(actor, name string) {
	r.pods[name]["metadata"].(map[string]any)["deletionTimestamp"] = "2000-01-01T00:00:00Z"
	r.wrote(actor, "delete", "pods", "", name, "uid-"+name, 0)
}

// status makes the controller write a status, given as field, value, …; conditions are those that are true.
func (r *run) status(conditions string, fields ...any) int {
	status := map[string]any{}
	for n := 0; n < len(fields); n += 2 {
		status[fields[n].(string)] = fields[n+1]
	}
	var list []any
	for _, typ := range strings.Fields(conditions) {
		list = append(list, map[string]any{"type": typ, "status": "True"})
	}
	status["conditions"] = list
	r.object["status"] = status
	return r.wrote("c", "update", "jobs.batch", "status", "pi", "J", 0)
}

func (r *run) spec(field string, value any) int {
	r.object["spec"].(map[string]any)[field] = value
	return r.wrote("user", "patch", "jobs.batch", "", "pi", "J", 0)
}

// now returns a step after which a reconcile may begin.
func (r *run) now() int { return r.Add(history.Step{Kind: history.Time}) }

func nonIndexed(parallelism, completions int) map[string]any {
	spec := map[string]any{"parallelism": int64(parallelism), "completionMode": "NonIndexed"}
	if completions >= 0 {
		spec["completions"] = int64(completions)
	}
	return spec
}

func indexed(n int) map[string]any {
	spec := nonIndexed(n, n)
	spec["completionMode"] = "Indexed"
	return spec
}

// perIndex returns a spec of n indexes, each of which has retries of its own.
func perIndex(n int) map[string]any {
	spec := indexed(n)
	spec["backoffLimitPerIndex"] = int64(2)
	return spec
}

// waiting returns a spec under which pods are replaced only after they have failed.
func waiting(spec map[string]any) map[string]any {
	spec["podReplacementPolicy"] = "Failed"
	return spec
}

func uncounted(succeeded, failed []any) map[string]any {
	return map[string]any{"succeeded": succeeded, "failed": failed}
}

// selecting returns a spec whose selector matches the label of orphans.
func selecting(spec map[string]any) map[string]any {
	spec["selector"] = map[string]any{"matchLabels": map[string]any{"job": "pi"}}
	return spec
}
