package cloneset

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"pgregory.net/rapid"
)

// drawnPod draws a pod that shares some names with drawn patches.
func drawnPod(t *rapid.T) *corev1.Pod {
	some := func(name string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, name)
	}
	pod := &corev1.Pod{}
	pod.Name, pod.UID, pod.ResourceVersion = "web-0", "u", "7"
	for _, key := range some("labels") {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, "was")
	}
	for _, key := range some("annotations") {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, "was")
	}
	for _, name := range some("containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: "was", Args: []string{"x"}, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		})
	}
	for _, kind := range some("conditions") {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(kind), Status: "False", Reason: "Was", Message: "was", ObservedGeneration: 3, LastTransitionTime: metav1.Unix(1, 0),
		})
	}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// drawnPatch draws a patch that a plan may create.
func drawnPatch(t *rapid.T, pod *corev1.Pod) (b patch) {
	some := func(name string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "d"}), 0, 3, rapid.ID).Draw(t, name)
	}
	text1 := func(name string) string { return rapid.SampledFrom([]string{"", "now", "<&\u2028\"é"}).Draw(t, name) }
	for _, key := range some("label changes") {
		if b.Metadata.Labels == nil {
			b.Metadata.Labels = map[string]*string{}
		}
		b.Metadata.Labels[key] = rapid.SampledFrom([]*string{nil, ptrTo(text1("label"))}).Draw(t, "label or none")
	}
	for _, key := range some("annotation changes") {
		if b.Metadata.Annotations == nil {
			b.Metadata.Annotations = map[string]any{}
		}
		b.Metadata.Annotations[key] = rapid.SampledFrom([]any{nil, text1("annotation"), text{map[string]string{"of": text1("text")}}}).Draw(t, "annotation or none")
	}
	if len(pod.Spec.Containers) > 0 && rapid.Bool().Draw(t, "spec") {
		b.Spec = &patchSpec{}
		for _, c := range pod.Spec.Containers { // in the order of the pod, as inOrder does: a merge would reorder the containers
			if rapid.Bool().Draw(t, "image") {
				b.Spec.Containers = append(b.Spec.Containers, patchContainer{Name: c.Name, Image: text1("image")})
			}
		}
	}
	if rapid.Bool().Draw(t, "status") {
		b.Status = &patchStatus{}
		for _, kind := range some("condition changes") {
			b.Status.Conditions = append(b.Status.Conditions, patchCondition{
				Type: corev1.PodConditionType(kind), Status: "True", Reason: text1("reason"), Message: text1("message"), LastTransitionTime: metav1.Unix(2, 0),
			})
		}
	}
	return b
}

// TestAppliedIsWhatTheAPIMakes checks that Applied returns the same pod as the API server's merge, and does
// not change the pod in the cache.
func TestAppliedIsWhatTheAPIMakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawnPod(t)
		b := drawnPatch(t, pod)
		was := pod.DeepCopy()
		before, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		body, err := b.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		after, err := strategicpatch.StrategicMergePatch(before, body, &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		var want corev1.Pod
		if err := json.Unmarshal(after, &want); err != nil {
			t.Fatal(err)
		}
		got, ok := b.Applied(pod).(*corev1.Pod)
		if !ok {
			t.Fatalf("%s: not applied", body)
		}
		if !equality.Semantic.DeepEqual(pod, was) {
			t.Fatalf("%s: Applied has changed its argument", body)
		}
		if !same(got, &want) {
			t.Fatalf("%s\nof %s\ngives %+v\nwant  %+v", body, before, got, &want)
		}
	})
}

// TestNotApplied checks that Applied returns nil for patches that only the API server can merge.
func TestNotApplied(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	for name, b := range map[string]patch{
		"finalizers":        {Metadata: patchMetadata{Finalizers: []string{"a"}}},
		"owners":            {Metadata: patchMetadata{OwnerReferences: []any{"a"}}},
		"a text of a kind":  {Metadata: patchMetadata{Annotations: map[string]any{"a": 1}}},
		"resources":         {Spec: &patchSpec{Containers: []patchContainer{{Name: "main", Resources: &corev1.ResourceRequirements{}}}}},
		"another container": {Spec: &patchSpec{Containers: []patchContainer{{Name: "other", Image: "x"}}}},
	} {
		if got := b.Applied(pod); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	whole, ok := patch{Metadata: patchMetadata{Annotations: map[string]any{"a": text{time.Second}}}}.Applied(pod).(*corev1.Pod)
	if !ok || whole.Annotations["a"] != "1000000000" {
		t.Errorf("annotation %q", whole.Annotations)
	}
}
