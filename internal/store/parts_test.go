package store

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// encoded returns an object as the API server stores it.
func encoded(t testing.TB, obj runtime.Object, kind string) []byte {
	t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
	var out bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSplitPod: a pod is split into its three parts and joined again; other kinds, other encodings and damaged bytes are not split.
func TestSplitPod(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	data := encoded(t, pod, "Pod")
	parts, ok := splitPod(data)
	if !ok || parts[0] != nil || len(parts[1]) == 0 || len(parts[2]) == 0 || len(parts[3]) == 0 {
		t.Fatalf("parts %q, %t", parts, ok)
	}
	if joined := parts.encode(); !bytes.Equal(joined, data) {
		t.Errorf("joined:\n%q\nwant\n%q", joined, data)
	}
	twice := parts
	twice[3] = slices.Concat(parts[3], parts[2])
	unknown := parts
	unknown[0] = []byte("\x22\x00") // field 4
	for name, data := range map[string][]byte{
		"nothing":       nil,
		"JSON":          []byte(`{"apiVersion":"v1","kind":"Pod","spec":{}}`),
		"another kind":  encoded(t, &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}, "Service"),
		"longer kind":   encoded(t, &corev1.PodTemplate{}, "PodTemplate"),
		"cut":           data[:len(data)-1],
		"longer":        append(slices.Clone(data), 0),
		"part twice":    twice.encode(),
		"unknown field": unknown.encode(),
	} {
		if parts, ok := splitPod(data); ok {
			t.Errorf("%s: split into %q", name, parts)
		}
	}
}

// FuzzSplitPod: no bytes make it panic, and joined parts are split into the same parts.
func FuzzSplitPod(f *testing.F) {
	f.Add(encoded(f, &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}, "Pod"))
	f.Add([]byte(podHead + "\x02\x0a\x00" + podTail))
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, ok := splitPod(data)
		if !ok {
			return
		}
		again, ok := splitPod(parts.encode())
		for number := range parts {
			if !ok || !bytes.Equal(again[number], parts[number]) {
				t.Fatalf("%q is split into %q, and again into %q", data, parts, again)
			}
		}
	})
}
