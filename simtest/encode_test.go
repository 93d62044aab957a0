package simtest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestEncode: a write of the test function contains no field that only the API sets, and changes no object of the test.
func TestEncode(t *testing.T) {
	set := []metav1.ManagedFieldsEntry{{Manager: "m"}}
	meta := metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.Unix(1, 0), ManagedFields: set}
	const kept = `{"metadata":{"name":"a"},"spec":{"containers":null}}`
	for name, c := range map[string]struct {
		object Object
		want   string
	}{
		"a Go type": {&corev1.Pod{ObjectMeta: meta}, kept},
		"with a status": {&corev1.Pod{ObjectMeta: meta, Status: corev1.PodStatus{Phase: "Running"}},
			`{"metadata":{"name":"a"},"spec":{"containers":null},"status":{"phase":"Running"}}`},
		"the status is not the last field": {&unstructured.Unstructured{Object: map[string]any{
			"kind": "K", "metadata": map[string]any{"name": "a", "creationTimestamp": nil}, "status": map[string]any{}, "value": int64(1)}},
			`{"kind":"K","metadata":{"name":"a"},"value":1}`},
		"ordinary Go values in an unstructured object": {&unstructured.Unstructured{Object: map[string]any{
			"kind": "K", "metadata": map[string]any{"name": "a", "labels": map[string]string{"b": "c"}}, "replicas": 3}},
			`{"kind":"K","metadata":{"labels":{"b":"c"},"name":"a"},"replicas":3}`},
		"an empty status in another field": {&unstructured.Unstructured{Object: map[string]any{
			"kind": "K", "spec": map[string]any{"status": map[string]any{}}}},
			`{"kind":"K","spec":{"status":{}}}`},
	} {
		if got := string((&World{}).encode(c.object)); got != c.want {
			t.Errorf("%s: encoded as %s, want %s", name, got, c.want)
		}
		if o, ok := c.object.(*corev1.Pod); ok && (len(o.ManagedFields) != 1 || o.CreationTimestamp.IsZero()) {
			t.Errorf("%s: the object of the test has changed", name)
		}
	}
}
