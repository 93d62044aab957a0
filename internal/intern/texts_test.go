package intern

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// node may contain itself.
type node struct {
	corev1.Pod
	Next  *node
	Limit *resource.Quantity
}

func (n *node) DeepCopyObject() runtime.Object { return n }

// TestFillTexts: afterwards, String of every quantity with an address only reads.
func TestFillTexts(t *testing.T) {
	// Parsing these keeps no text.
	limit := func() resource.Quantity { return resource.MustParse("64Mi") }
	if text(reflect.ValueOf(ptr.To(limit()))) != "" {
		t.Fatal("parsing keeps the text")
	}
	selector := func() *corev1.ResourceFieldSelector {
		return &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: limit()}
	}
	env := []corev1.EnvVar{{Name: "a"}, {Name: "b", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: selector()}}}
	files := []corev1.DownwardAPIVolumeFile{{ResourceFieldRef: selector()}, {}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(limit())}}},
			{VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{
				Items: []corev1.DownwardAPIVolumeFile{{ResourceFieldRef: selector()}}}}}}}},
		},
		InitContainers:      []corev1.Container{{Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: selector()}}}}},
		Containers:          []corev1.Container{{Env: env, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": limit()}}}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: selector()}}}}}},
	}}
	n := &node{Pod: *pod, Limit: ptr.To(limit())}
	n.Next = &node{Limit: ptr.To(limit())}
	for name, c := range map[string]struct {
		obj  runtime.Object
		want int
	}{"pod": {pod.DeepCopy(), 6}, "a type that contains itself": {n, 8}, "without quantities": {&corev1.ConfigMap{}, 0}, "nil": {(*corev1.Pod)(nil), 0}} {
		FillTexts(c.obj)
		filled, empty := 0, 0
		countTexts(reflect.ValueOf(c.obj), &filled, &empty)
		if filled != c.want || empty > 0 {
			t.Errorf("%s: %d quantities have a text and %d have none, want %d and 0", name, filled, empty, c.want)
		}
	}
}

// text returns the text that a quantity keeps.
func text(v reflect.Value) string { return v.Elem().FieldByName("s").String() }

// countTexts visits everything with an address, without what FillTexts knows about types.
func countTexts(v reflect.Value, filled, empty *int) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Type().Elem() == quantityType {
			if text(v) != "" {
				*filled++
			} else {
				*empty++
			}
			return
		}
		countTexts(v.Elem(), filled, empty)
	case reflect.Struct:
		if v.Type() == quantityType {
			countTexts(v.Addr(), filled, empty)
			return
		}
		for n := range v.NumField() {
			if v.Type().Field(n).IsExported() {
				countTexts(v.Field(n), filled, empty)
			}
		}
	case reflect.Slice:
		for n := range v.Len() {
			countTexts(v.Index(n), filled, empty)
		}
	}
}

func BenchmarkFillTexts(b *testing.B) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: make([]corev1.Volume, 2), Containers: []corev1.Container{{Env: make([]corev1.EnvVar, 10)}}}}
	b.ReportAllocs()
	for b.Loop() {
		FillTexts(pod)
	}
}
