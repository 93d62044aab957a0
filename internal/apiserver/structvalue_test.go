package apiserver

import (
	"reflect"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// TestStructValueVisitsDifferences: two values of structs read together leave out the equal fields, at each level.
func TestStructValueVisitsDifferences(t *testing.T) {
	a := createdPod()
	b := a.DeepCopy()
	b.Spec.Containers[0].Image, b.Spec.NodeName, b.Labels = "nginx:2", "", map[string]string{}
	visited := map[string][2]bool{}
	var visit func(path string) func(key string, l, r value.Value) bool
	visit = func(path string) func(key string, l, r value.Value) bool {
		return func(key string, l, r value.Value) bool {
			path := path + "." + key
			visited[path] = [2]bool{l != nil, r != nil}
			switch {
			case l == nil || r == nil:
			case l.IsMap() && r.IsMap():
				value.MapZip(l.AsMap(), r.AsMap(), value.Unordered, visit(path))
			case l.IsList() && r.IsList():
				value.MapZip(l.AsList().At(0).AsMap(), r.AsList().At(0).AsMap(), value.Unordered, visit(path))
			}
			return true
		}
	}
	x, err := newStructValue(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := newStructValue(b)
	if err != nil {
		t.Fatal(err)
	}
	value.MapZip(x.AsMap(), y.AsMap(), value.Unordered, visit(""))
	want := map[string][2]bool{
		".metadata": {true, true}, ".metadata.labels": {true, false},
		".spec": {true, true}, ".spec.nodeName": {true, false}, ".spec.containers": {true, true}, ".spec.containers.image": {true, true},
	}
	if !reflect.DeepEqual(visited, want) {
		t.Errorf("visited %v, want %v", visited, want)
	}
}

// TestStructValueOtherValues: with a value that is not a struct of the same type, all fields are read.
func TestStructValueOtherValues(t *testing.T) {
	a, err := newStructValue(&corev1.PodSpec{NodeName: "a", HostNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	same, err := newStructValue(&corev1.PodSpec{NodeName: "a", HostNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	if !value.Equals(a, same) {
		t.Error("two equal structs differ")
	}
	content := value.NewValueInterface(map[string]any{"nodeName": "a", "hostNetwork": true, "containers": nil})
	if !value.Equals(a, content) {
		t.Errorf("%v differs from %v", a.Unstructured(), content.Unstructured())
	}
	keys := 0
	value.MapZip(a.AsMap(), content.AsMap(), value.Unordered, func(string, value.Value, value.Value) bool {
		keys++
		return true
	})
	if keys != 3 {
		t.Errorf("%d fields were visited, want all 3", keys)
	}
}

// TestMicroTime: the time of a lease has the text of its JSON, a zero time is null, and no time is no field, as upstream reads them. It is read with few allocations:
// a pass through JSON needs more than ten.
func TestMicroTime(t *testing.T) {
	field := func(at *metav1.MicroTime) value.Value {
		ours, err := newStructValue(&coordinationv1.LeaseSpec{RenewTime: at})
		if err != nil {
			t.Fatal(err)
		}
		m := ours.AsMap().(structMap)
		for _, f := range value.TypeReflectEntryOf(m.of.Type()).OrderedFields() {
			if f.JsonName == "renewTime" {
				return m.field(f)
			}
		}
		t.Fatal("a lease has no renewTime")
		return nil
	}
	for _, at := range []*metav1.MicroTime{nil, {}, {Time: time.Unix(1, 2000)}, {Time: time.Unix(1, 2999).In(time.FixedZone("", 3600))}, {Time: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)}} {
		upstream, err := value.NewValueReflect(&coordinationv1.LeaseSpec{RenewTime: at})
		if err != nil {
			t.Fatal(err)
		}
		want, exists := upstream.AsMap().Get("renewTime")
		got := field(at)
		if exists != (got != nil) || exists && (!value.Equals(got, want) || got.Unstructured() != want.Unstructured() || got.IsNull() != want.IsNull()) {
			t.Errorf("%v is read as %v, want %v (exists: %t)", at, got, want, exists)
		}
	}
	at := &metav1.MicroTime{Time: time.Unix(1, 2000)}
	if none, some := testing.AllocsPerRun(100, func() { field(nil) }), testing.AllocsPerRun(100, func() { field(at) }); some > none+8 {
		t.Errorf("%.0f allocations, and %.0f without a time", some, none)
	}
}
