package invariant_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// jobRun plays a run of one Job by hand: each act is a write, after which the promises
// are looked at, as simtest does.
type jobRun struct {
	*script
	promises invariant.JobPromises
	job      map[string]any
	pods     map[string]map[string]any
	broken   []string
}

func newJobRun(spec map[string]any) *jobRun {
	r := &jobRun{script: newScript(), promises: invariant.Job(invariant.Owner{Kind: "Job", Namespace: "default", Name: "pi"}), pods: map[string]map[string]any{}}
	r.look()
	r.make("J", spec)
	return r
}

// make makes the Job, or another one of its name; the controller sees it.
func (r *jobRun) make(uid string, spec map[string]any) {
	r.job = map[string]any{"metadata": map[string]any{"namespace": "default", "name": "pi", "uid": uid}, "spec": spec, "status": map[string]any{}}
	r.see(r.wrote("user", "create", "jobs.batch", "", "pi", uid, 0))
}

// wrote notes a write, gives its object the revision, and looks at the promises.
func (r *jobRun) wrote(actor, verb, resource, sub, name, uid string, cause int) int {
	n := r.add(history.Step{Kind: history.Request, Actor: actor, Verb: verb, Code: 200, Before: 1, Revision: r.revision + 1, Subresource: sub,
		Object: history.Object{Resource: resource, Namespace: "default", Name: name, UID: uid}}, cause)
	of := r.job
	if resource == "pods" {
		of = r.pods[name]
	}
	if of != nil {
		of["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(r.revision)
	}
	r.look()
	return n
}

// look shows the promises what there is now, as objects of their own.
func (r *jobRun) look() {
	r.objects = map[string][]*unstructured.Unstructured{}
	if r.job != nil {
		r.objects["jobs.batch"] = []*unstructured.Unstructured{(&unstructured.Unstructured{Object: r.job}).DeepCopy()}
	}
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		r.objects["pods"] = append(r.objects["pods"], (&unstructured.Unstructured{Object: r.pods[name]}).DeepCopy())
	}
	for _, i := range r.promises.Always {
		if err := i.Check(r); err != nil {
			text := i.Name + ": " + err.Error()
			if !slices.Contains(r.broken, text) {
				r.broken = append(r.broken, text)
			}
		}
	}
}

// see brings the controller the event of a write of the Job, and is the step.
func (r *jobRun) see(write int) int { return r.frame(2, write) }

// pod lets the controller make a pod, decided at a step. An index of "" is none.
func (r *jobRun) pod(name, index string, decided int) {
	annotations := map[string]any{}
	if index != "" {
		annotations["batch.kubernetes.io/job-completion-index"] = index
	}
	r.pods[name] = map[string]any{
		"metadata": map[string]any{
			"namespace": "default", "name": name, "uid": "uid-" + name, "annotations": annotations,
			"finalizers": []any{invariant.TrackingFinalizer},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": r.job["metadata"].(map[string]any)["uid"], "controller": true,
			}},
		},
		"status": map[string]any{"phase": "Pending"},
	}
	r.wrote("c", "create", "pods", "", name, "uid-"+name, decided)
}

// orphan lets the user create a pod without a controller, or take the controller away. Its label
// is the one that the Job's selector names.
func (r *jobRun) orphan(name string) int {
	r.pods[name] = map[string]any{
		"metadata": map[string]any{"namespace": "default", "name": name, "uid": "uid-" + name, "labels": map[string]any{"job": "pi"}},
		"status":   map[string]any{"phase": "Running"},
	}
	return r.wrote("user", "create", "pods", "", name, "uid-"+name, 0)
}

// adopt lets the controller adopt a pod.
func (r *jobRun) adopt(name string) {
	metadata := r.pods[name]["metadata"].(map[string]any)
	metadata["finalizers"] = []any{invariant.TrackingFinalizer}
	metadata["ownerReferences"] = []any{map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": r.job["metadata"].(map[string]any)["uid"], "controller": true,
	}}
	r.wrote("c", "patch", "pods", "", name, "uid-"+name, 0)
}

func (r *jobRun) phase(name, phase string) {
	r.pods[name]["status"] = map[string]any{"phase": phase}
	r.wrote("kubelet", "update", "pods", "status", name, "uid-"+name, 0)
}

func (r *jobRun) finalizers(actor, name string, finalizers ...any) {
	r.pods[name]["metadata"].(map[string]any)["finalizers"] = finalizers
	r.wrote(actor, "patch", "pods", "", name, "uid-"+name, 0)
}

// remove lets somebody delete a pod, which its finalizer holds.
func (r *jobRun) remove(actor, name string) {
	r.pods[name]["metadata"].(map[string]any)["deletionTimestamp"] = "2000-01-01T00:00:00Z"
	r.wrote(actor, "delete", "pods", "", name, "uid-"+name, 0)
}

// status lets the controller write one, given as field, value, …; conditions are those
// that are true.
func (r *jobRun) status(conditions string, fields ...any) int {
	status := map[string]any{}
	for n := 0; n < len(fields); n += 2 {
		status[fields[n].(string)] = fields[n+1]
	}
	var list []any
	for _, typ := range strings.Fields(conditions) {
		list = append(list, map[string]any{"type": typ, "status": "True"})
	}
	status["conditions"] = list
	r.job["status"] = status
	return r.wrote("c", "update", "jobs.batch", "status", "pi", "J", 0)
}

func (r *jobRun) spec(field string, value any) int {
	r.job["spec"].(map[string]any)[field] = value
	return r.wrote("user", "patch", "jobs.batch", "", "pi", "J", 0)
}

// now is a step after which a reconcile may begin.
func (r *jobRun) now() int { return r.add(history.Step{Kind: history.Time}) }

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

// waiting is a spec under which pods are replaced only once they have failed.
func waiting(spec map[string]any) map[string]any {
	spec["podReplacementPolicy"] = "Failed"
	return spec
}

func uncounted(succeeded, failed []any) map[string]any {
	return map[string]any{"succeeded": succeeded, "failed": failed}
}

// selecting is a Job whose selector is the label that orphans have.
func selecting(spec map[string]any) map[string]any {
	spec["selector"] = map[string]any{"matchLabels": map[string]any{"job": "pi"}}
	return spec
}
