package wire_test

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	protoStream  = protobufType + ";stream=watch"
)

const (
	uidA = "0b0f0d9c-2b52-4c5a-8a7e-6a2ab1f5d001"
	uidB = "7e0c6a11-94f1-4d3e-9f1d-1d6f6f1ad002"
)

// serializer is the real one of a media type.
func serializer(t testing.TB, mediaType string) runtime.SerializerInfo {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatalf("no serializer for %s", mediaType)
	}
	return info
}

// encode writes an object as a real client or server does.
func encode(t testing.TB, mediaType string, o runtime.Object) []byte {
	t.Helper()
	var enc runtime.Encoder = unstructured.UnstructuredJSONScheme
	if _, ok := o.(*unstructured.Unstructured); !ok {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			t.Fatal(err)
		}
		enc = scheme.Codecs.EncoderForVersion(serializer(t, mediaType).Serializer, kinds[0].GroupVersion())
	}
	b, err := runtime.Encode(enc, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stream writes events as a real server does.
func stream(t testing.TB, mediaType string, events ...watch.Event) []byte {
	t.Helper()
	var buf bytes.Buffer
	info := serializer(t, mediaType)
	frames := info.StreamSerializer.Framer.NewFrameWriter(&buf)
	codec := scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)
	embedded := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	enc := restwatch.NewEncoder(streaming.NewEncoder(frames, codec), embedded)
	for i := range events {
		if err := enc.Encode(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

// pod is one as large as pods are.
func pod(name, uid, rv string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(uid), ResourceVersion: rv,
			Labels:      map[string]string{"app": "web", "pod-template-hash": "6c9f7d4b8d"},
			Annotations: map[string]string{"note": "a \"quoted\" } \\ ünïcödé \n line", "a": "{[\""},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: uidB},
			},
			Finalizers: []string{"batch.kubernetes.io/job-tracking"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
	}
	for i := range 4 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: string(rune('a' + i)), Image: "registry.example.com/app:1.2.3",
			Env: []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "PATH", Value: "/usr/local/bin:/usr/bin"}},
		})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: string(rune('a' + i)), Ready: true})
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "Ready", Status: "True", Message: "all is well"})
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", FieldsV1: metav1.NewFieldsV1(
		`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}}}}`)}}
	return p
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
