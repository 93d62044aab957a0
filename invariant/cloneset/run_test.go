package cloneset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/cloneset"
)

// The labels of a CloneSet's pods.
const (
	stateLabel    = "lifecycle.apps.kruise.io/state"
	instanceLabel = "apps.kruise.io/cloneset-instance-id"
	revisionLabel = "controller-revision-hash"
	preDelete     = "hook/pre-delete"
	inPlace       = "hook/in-place"
	preNormal     = "hook/pre-normal"
)

// run simulates a run of one CloneSet. Each method is a write, after which the invariants are checked, as
// simtest does.
type run struct {
	*viewtest.Script
	invariants invariant.Set
	set        map[string]any
	pods       map[string]map[string]any
	others     map[string][]*unstructured.Unstructured // claims and revisions
	violations []string
	instances  int
}

func newRun(spec map[string]any) *run {
	r := &run{
		Script:     viewtest.NewScript(),
		invariants: cloneset.Invariants(invariant.Owner{Kind: "CloneSet", Namespace: "default", Name: "web"}),
		pods:       map[string]map[string]any{}, others: map[string][]*unstructured.Unstructured{},
	}
	r.Watch(3, "clonesets.apps.kruise.io", "")
	r.Add(history.Step{Kind: history.Start, Actor: "kubelet"})
	r.check()
	r.create("S", spec)
	return r
}

// create creates the CloneSet, or another one with its name; the controller observes it and writes a first
// status.
func (r *run) create(uid string, spec map[string]any) {
	r.set = map[string]any{
		"metadata": map[string]any{"namespace": "default", "name": "web", "uid": uid, "generation": int64(1)}, "spec": spec,
		"status": map[string]any{"updateRevision": "web-1", "currentRevision": "web-1"},
	}
	r.deliver(r.wrote("user", "create", "clonesets.apps.kruise.io", "", "web", uid, 0))
	r.others["controllerrevisions.apps"] = []*unstructured.Unstructured{r.owned("web-1")}
	r.wrote("c", "update", "clonesets.apps.kruise.io", "status", "web", uid, r.now())
}

// owned returns an object of the CloneSet.
func (r *run) owned(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"namespace": "default", "name": name, "uid": "uid-" + name, "ownerReferences": r.ref(), "labels": map[string]any{},
	}}}
}

func (r *run) ref() []any {
	return []any{map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": r.set["metadata"].(map[string]any)["uid"], "controller": true,
	}}
}

// wrote records a write, sets the revision of its object, and checks the invariants.
func (r *run) wrote(actor, verb, resource, sub, name, uid string, cause int) int {
	n := r.Add(history.Step{Kind: history.Request, Actor: actor, Verb: verb, Code: 200, Before: 1, Revision: r.Revision + 1, Subresource: sub,
		Object: history.Object{Resource: resource, Namespace: "default", Name: name, UID: uid}}, cause)
	of := r.pods[name]
	if resource == "clonesets.apps.kruise.io" {
		of = r.set
	}
	if of != nil {
		of["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(r.Revision)
	}
	r.check()
	return n
}

// check lists copies of the current objects and checks the invariants.
func (r *run) check() {
	r.Objects = maps.Clone(r.others)
	if r.set != nil {
		r.Objects["clonesets.apps.kruise.io"] = []*unstructured.Unstructured{(&unstructured.Unstructured{Object: r.set}).DeepCopy()}
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

// see delivers the event of a write of the CloneSet to the controller and returns the step; seePods does so
// for a pod.
func (r *run) deliver(write int) int    { return r.Frame(3, write) }
func (r *run) deliverPod(write int) int { return r.Frame(1, write) }

// now returns a step after which a reconcile may begin.
func (r *run) now() int { return r.Add(history.Step{Kind: history.Time}) }

// deliverAllPods delivers all events of pods to the controller and returns the step.
func (r *run) deliverAllPods() int {
	for n := len(r.Record.Steps) - 1; ; n-- {
		if s := &r.Record.Steps[n]; s.Wrote() && s.Resource == "pods" {
			return r.deliverPod(n)
		}
	}
}

// pod makes the controller create a pod, decided at a step; "name@revision" sets a revision.
func (r *run) pod(name string, decided int) int {
	name, revision, some := strings.Cut(name, "@")
	if !some {
		revision = "web-1"
	}
	r.instances++
	r.pods[name] = map[string]any{
		"metadata": map[string]any{
			"namespace": "default", "name": name, "uid": "uid-" + name, "ownerReferences": r.ref(), "finalizers": []any{},
			"labels": map[string]any{stateLabel: "PreparingNormal", revisionLabel: revision, instanceLabel: fmt.Sprint("i", r.instances)},
		},
		"spec": map[string]any{
			"containers":     []any{map[string]any{"name": "main", "image": "web:1"}},
			"readinessGates": []any{map[string]any{"conditionType": "InPlaceUpdateReady"}, map[string]any{"conditionType": "KruisePodReady"}},
		},
		"status": map[string]any{"phase": "Pending"},
	}
	return r.wrote("c", "create", "pods", "", name, "uid-"+name, decided)
}

// ready makes pods ready: on a node, running, Normal and Ready.
func (r *run) ready(pods ...string) {
	for _, name := range pods {
		r.pods[name]["spec"].(map[string]any)["nodeName"] = "node"
		r.status(name, "PodScheduled=True", "InPlaceUpdateReady=True", "ContainersReady=True", "Ready=True")
		r.pods[name]["status"].(map[string]any)["phase"] = "Running"
		r.pods[name]["status"].(map[string]any)["containerStatuses"] = []any{map[string]any{"name": "main", "containerID": "first"}}
		r.wrote("kubelet", "patch", "pods", "status", name, "uid-"+name, 0)
		r.label(name, stateLabel, "Normal")
		r.wrote("kubelet", "patch", "pods", "", name, "uid-"+name, 0) // the invariants do not check the kubelet
	}
}

// status sets conditions of a pod, without a write.
func (r *run) status(pod string, conditions ...string) {
	status := r.pods[pod]["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, c := range conditions {
		kind, value, _ := strings.Cut(c, "=")
		value, message, _ := strings.Cut(value, " ")
		list = slices.DeleteFunc(list, func(c any) bool { return c.(map[string]any)["type"] == kind })
		list = append(list, map[string]any{"type": kind, "status": value, "message": message,
			"lastTransitionTime": viewtest.Start.Add(r.Clock).Format("2006-01-02T15:04:05Z")})
	}
	status["conditions"] = list
}

// label sets a label of a pod, without a write; "" removes it.
func (r *run) label(pod, label, value string) {
	labels := r.pods[pod]["metadata"].(map[string]any)["labels"].(map[string]any)
	if delete(labels, label); value != "" {
		labels[label] = value
	}
}

func (r *run) image(pod, image string) {
	r.pods[pod]["spec"].(map[string]any)["containers"] = []any{map[string]any{"name": "main", "image": image}}
}

// state makes the controller move a pod to another state, with some conditions.
func (r *run) state(pod, state string, decided int, conditions ...string) {
	r.label(pod, stateLabel, state)
	r.status(pod, conditions...)
	r.wrote("c", "patch", "pods", "status", pod, "uid-"+pod, decided)
}

// patch makes an actor write a pod with its current content.
func (r *run) patch(actor, pod string, decided int) int {
	return r.wrote(actor, "patch", "pods", "", pod, "uid-"+pod, decided)
}

// remove makes an actor delete a pod; gone removes it from the API.
func (r *run) remove(actor, pod string, decided int) int {
	r.pods[pod]["metadata"].(map[string]any)["deletionTimestamp"] = "2000-01-01T00:00:00Z"
	return r.wrote(actor, "delete", "pods", "", pod, "uid-"+pod, decided)
}

func (r *run) gone(pod string) int {
	delete(r.pods, pod)
	return r.wrote("kubelet", "delete", "pods", "", pod, "uid-"+pod, 0)
}

// spec changes a field of the spec; "a.b" is a field of an object in it.
func (r *run) spec(field string, value any) int {
	in := r.set["spec"].(map[string]any)
	path := strings.Split(field, ".")
	for _, name := range path[:len(path)-1] {
		if in[name] == nil {
			in[name] = map[string]any{}
		}
		in = in[name].(map[string]any)
	}
	in[path[len(path)-1]] = value
	r.set["metadata"].(map[string]any)["generation"] = r.set["metadata"].(map[string]any)["generation"].(int64) + 1
	return r.wrote("user", "patch", "clonesets.apps.kruise.io", "", "web", "S", 0)
}

// setStatus makes the controller write a status that matches the pods, except for some fields.
func (r *run) setStatus(pods, available int, fields ...any) {
	n, a := int64(pods), int64(available)
	status := map[string]any{
		"observedGeneration": r.set["metadata"].(map[string]any)["generation"], "updateRevision": "web-1", "currentRevision": "web-1",
		"replicas": n, "readyReplicas": a, "availableReplicas": a, "updatedReplicas": n, "updatedReadyReplicas": a, "updatedAvailableReplicas": a,
		"expectedUpdatedReplicas": n,
	}
	for n := 0; n < len(fields); n += 2 {
		status[fields[n].(string)] = fields[n+1]
	}
	r.set["status"] = status
	r.wrote("c", "update", "clonesets.apps.kruise.io", "status", "web", "S", 0)
}

// replicas returns a spec of so many pods, one of which may be unavailable.
func replicas(n int, more ...any) map[string]any {
	update := map[string]any{"type": "InPlaceIfPossible", "maxUnavailable": int64(1)}
	for i := 0; i < len(more); i += 2 {
		update[more[i].(string)] = more[i+1]
	}
	return map[string]any{
		"replicas": int64(n), "updateStrategy": update,
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "web:1"}}}},
	}
}

// hooked returns a spec with hooks of all kinds.
func hooked(spec map[string]any) map[string]any {
	by := func(label string) map[string]any {
		return map[string]any{"labelsHandler": map[string]any{label: "yes"}, "finalizersHandler": []any{label}}
	}
	spec["lifecycle"] = map[string]any{"preDelete": by(preDelete), "inPlaceUpdate": by(inPlace), "preNormal": by(preNormal)}
	return spec
}

// up makes the controller create pods, and makes them ready.
func (r *run) createReady(pods ...string) {
	for _, name := range pods {
		r.pod(name, r.now())
		name, _, _ = strings.Cut(name, "@")
		r.ready(name)
	}
}
