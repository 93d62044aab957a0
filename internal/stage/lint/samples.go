package lint

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// lintStart is when the objects of lint are created.
var lintStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// samples are new objects of a kind.
func samples(k stage.Kind) []stage.Object {
	switch k {
	case stage.KindPod:
		return samplePods()
	case stage.KindNode:
		return []stage.Object{stage.Created(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "sample"}}, lintStart)}
	}
	values := map[string]any{
		"apiVersion": k.APIVersion, "kind": k.Kind,
		"metadata": map[string]any{"name": "sample", "namespace": "default"},
	}
	if spec := sampleSpec(k); spec != nil {
		values["spec"] = spec
	}
	return []stage.Object{stage.Created(&unstructured.Unstructured{Object: values}, lintStart)}
}

// sampleSpec is the spec of the usual kinds, as far as stages may read it.
func sampleSpec(k stage.Kind) map[string]any {
	template := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "sample"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "app:1"}}},
	}
	switch k.Kind + "." + k.GroupVersionKind().Group {
	case "PersistentVolumeClaim.":
		return map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "sample", "volumeMode": "Filesystem",
			"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
		}
	case "PersistentVolume.":
		return map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "sample", "volumeMode": "Filesystem",
			"capacity": map[string]any{"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete",
		}
	case "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch":
		return map[string]any{
			"replicas": int64(1), "parallelism": int64(1), "completions": int64(1),
			"selector": map[string]any{"matchLabels": map[string]any{"app": "sample"}}, "template": template,
		}
	}
	return nil
}

func samplePods() []stage.Object {
	pod := func(change func(p *corev1.Pod)) stage.Object {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "default"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		}
		change(p)
		return stage.Created(p, lintStart)
	}
	always := corev1.ContainerRestartPolicyAlways
	return []stage.Object{
		pod(func(*corev1.Pod) {}),
		pod(func(p *corev1.Pod) { // as the controller of Jobs makes one of an Indexed Job
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Labels = map[string]string{
				"app": "sample", batchv1.JobNameLabel: "sample", "job-name": "sample", batchv1.ControllerUidLabel: "sample", "controller-uid": "sample",
				batchv1.JobCompletionIndexAnnotation: "0",
			}
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "sample", UID: "sample"}}
		}),
		pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "first:1"}, {Name: "sidecar", Image: "sidecar:1", RestartPolicy: &always}}
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
		}),
	}
}

// ofUsers reports whether a path leads to what users write, and not controllers.
func ofUsers(steps []expr.Step) bool {
	return len(steps) > 0 && steps[0].Op == expr.Field && steps[0].Name != "status"
}

// satisfied changes an object so that requirements hold, as far as paths go;
// only those that users could bring about, or all.
func satisfied(o stage.Object, kind stage.Kind, s *linted, all bool) stage.Object {
	values := stage.ValuesOf(o)
	for i := range s.clauses {
		cl := &s.clauses[i]
		if cl.steps == nil || !all && !ofUsers(cl.steps) {
			continue
		}
		r := &s.compiled.Requirements[i]
		holds := func(values map[string]any) bool {
			object, err := stage.ObjectOf(runtime.DeepCopyJSON(values), kind)
			return err == nil && r.Holds(&expr.View{Object: object, Now: lintStart, UID: o.GetUID()}, s.Stage.Name)
		}
		if holds(values) {
			continue
		}
		for _, candidate := range candidates(cl) {
			changed, ok := put(runtime.DeepCopyJSON(values), cl.steps, candidate).(map[string]any)
			if ok && holds(changed) {
				values = changed
				break
			}
		}
	}
	out, err := stage.ObjectOf(values, kind)
	if err != nil {
		return nil
	}
	return out
}

// absent asks put to take a field away.
type absent struct{}

// candidates are values that may satisfy a requirement, likely ones first.
func candidates(c *clause) []any {
	switch c.op {
	case v1alpha1.SelectorOpIn:
		var out []any
		for _, v := range c.values {
			out = append(out, v)
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				out = append(out, n)
			}
			if b, err := strconv.ParseBool(v); err == nil {
				out = append(out, b)
			}
		}
		return out
	case v1alpha1.SelectorOpExists:
		at := lintStart.Add(time.Hour).Format(time.RFC3339)
		return []any{at, "sample", int64(1), true, map[string]any{}, []any{"example.com/sample"}, []any{map[string]any{"name": "sample"}}}
	}
	return []any{absent{}, "another", int64(0), false}
}

// put sets what a path leads to, and makes what is missing on the way.
func put(at any, steps []expr.Step, value any) any {
	if len(steps) == 0 {
		return value
	}
	s, rest := &steps[0], steps[1:]
	switch s.Op {
	case expr.Field:
		m, ok := at.(map[string]any)
		if !ok {
			m = map[string]any{}
		}
		if inner := put(m[s.Name], rest, value); inner == (any)(absent{}) {
			delete(m, s.Name)
		} else {
			m[s.Name] = inner
		}
		return m
	case expr.Iterate:
		list, _ := at.([]any)
		return putInList(list, rest, value)
	}
	return put(at, rest, value)
}

// putInList changes the item that the path selects, and adds one where none is
// selected.
func putInList(list []any, rest []expr.Step, value any) any {
	for i, item := range list {
		if !slices.ContainsFunc(rest, func(s expr.Step) bool { return s.Op == expr.Select && !s.Selects(item) }) {
			list[i] = put(item, rest, value)
			return list
		}
	}
	if value == (any)(absent{}) {
		return list
	}
	var item any = map[string]any{}
	if len(rest) == 0 {
		item = nil
	}
	for i := range rest {
		if s := &rest[i]; s.Op == expr.Select && !s.Negate {
			item = put(item, s.Sub, s.Text)
		}
	}
	return append(list, put(item, rest, value))
}

// disturbances returns what may happen to an object without any stage: its deletion is requested, its finalizers
// are removed, its node is lost, its readiness gates change.
func disturbances(o stage.Object, kind stage.Kind) []stage.Object {
	out := controllerPhases(o, kind)
	if o.GetDeletionTimestamp() == nil {
		held := deepCopy(o)
		held.SetFinalizers(append(slices.Clone(o.GetFinalizers()), "example.com/hold"))
		for _, one := range []stage.Object{stage.RequestDeletion(o, lintStart), stage.RequestDeletion(held, lintStart)} {
			if one != nil {
				out = append(out, one)
			}
		}
		if lost := notReady(o, kind); lost != nil {
			out = append(out, lost)
		}
		if turned := gatesTurned(o); turned != nil {
			out = append(out, turned)
		}
	} else if len(o.GetFinalizers()) > 0 {
		free := deepCopy(o)
		free.SetFinalizers(nil)
		out = append(out, free)
	}
	return out
}

// controllerPhases are the object with every phase that a controller of Kubernetes' own may
// give it. Of pods and nodes the phase is the stages' own.
func controllerPhases(o stage.Object, kind stage.Kind) []stage.Object {
	if typed(kind) {
		return nil
	}
	var out []stage.Object
	for _, phase := range enumerated[kind][`."status"."phase"`] {
		values := stage.ValuesOf(o)
		if unstructured.SetNestedField(values, phase, "status", "phase") == nil {
			out = append(out, &unstructured.Unstructured{Object: values})
		}
	}
	return out
}

// gatesTurned is a running pod whose readiness gates their owners have set, or set
// otherwise.
func gatesTurned(o stage.Object) stage.Object {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Status.Phase != corev1.PodRunning || len(p.Spec.ReadinessGates) == 0 {
		return nil
	}
	p = p.DeepCopy()
	for _, gate := range p.Spec.ReadinessGates {
		c := corev1.PodCondition{Type: gate.ConditionType, Status: corev1.ConditionTrue}
		if kubelet.IsConditionTrue(p.Status.Conditions, gate.ConditionType) {
			c.Status = corev1.ConditionFalse
		}
		p.Status.Conditions = kubelet.SetCondition(p.Status.Conditions, c, metav1.NewTime(lintStart))
	}
	return p
}

// notReady is the object with its Ready condition lost, which the node life
// cycle controller does; nil where it is not Ready anyway.
func notReady(o stage.Object, kind stage.Kind) stage.Object {
	if !typed(kind) {
		return nil
	}
	values := stage.ValuesOf(o)
	status, _ := values["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for i, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] == "Ready" && c["status"] == "True" {
			c = maps.Clone(c)
			c["status"] = "False"
			conditions[i] = c
			out, err := stage.ObjectOf(values, kind)
			if err != nil {
				return nil
			}
			return out
		}
	}
	return nil
}

// typed reports whether objects of a kind come as Go structs.
func typed(k stage.Kind) bool { return k == stage.KindPod || k == stage.KindNode }

func deepCopy(o stage.Object) stage.Object { return o.(runtime.Object).DeepCopyObject().(stage.Object) }
