package v1alpha1

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// TestDeepCopy fills every field, copies the object, and looks for shared memory.
func TestDeepCopy(t *testing.T) {
	fill := randfill.NewWithSeed(1).NilChance(0).NumElements(1, 2).MaxDepth(12)
	for range 20 {
		in := &StageList{}
		fill.Fill(in)
		out := in.DeepCopyObject().(*StageList)
		if diff := cmp.Diff(in, out); diff != "" {
			t.Fatalf("(-original +copy)\n%s", diff)
		}
		seen := map[uintptr]bool{}
		eachAddress(reflect.ValueOf(in.Items), func(p uintptr) { seen[p] = true })
		eachAddress(reflect.ValueOf(out.Items), func(p uintptr) {
			if seen[p] {
				t.Fatal("the copy shares memory with the original")
			}
		})
	}
	if (*Stage)(nil).DeepCopy() != nil || (*StageList)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}

// eachAddress visits the targets of pointers, slices and maps. Times contain a pointer to their location,
// which may be shared.
func eachAddress(v reflect.Value, visit func(uintptr)) {
	if v.Type().PkgPath() == "time" {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Pointer())
			eachAddress(v.Elem(), visit)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			visit(v.Pointer())
		}
		for i := range v.Len() {
			eachAddress(v.Index(i), visit)
		}
	case reflect.Map:
		if !v.IsNil() {
			visit(v.Pointer())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachAddress(v.Field(i), visit)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	fill := randfill.NewWithSeed(2).NilChance(0.3).NumElements(1, 3).MaxDepth(12)
	for range 50 {
		in := StageSpec{}
		fill.Fill(&in)
		data, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		out := StageSpec{}
		if err := json.Unmarshal(data, &out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, out); diff != "" {
			t.Fatalf("(-before +after)\n%s", diff)
		}
	}
}

func TestScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if o, err := s.New(GroupVersion.WithKind(StageKind)); err != nil || reflect.TypeOf(o) != reflect.TypeFor[*Stage]() {
		t.Errorf("%T, %v", o, err)
	}
}

// TestDeepCopyKubelet fills the lists of the kinds of kubelet endpoints, copies them, and looks for shared memory.
func TestDeepCopyKubelet(t *testing.T) {
	fill := randfill.NewWithSeed(2).NilChance(0).NumElements(1, 2).MaxDepth(12)
	for _, in := range []runtime.Object{
		&LogsList{}, &ClusterLogsList{}, &AttachList{}, &ClusterAttachList{},
		&ExecList{}, &ClusterExecList{}, &PortForwardList{}, &ClusterPortForwardList{},
		&ResourceUsageList{}, &ClusterResourceUsageList{}, &MetricList{},
	} {
		fill.Fill(in)
		out := in.DeepCopyObject()
		if diff := cmp.Diff(in, out); diff != "" {
			t.Fatalf("%T (-original +copy)\n%s", in, diff)
		}
		seen := map[uintptr]bool{}
		eachAddress(reflect.ValueOf(in).Elem().FieldByName("Items"), func(p uintptr) { seen[p] = true })
		eachAddress(reflect.ValueOf(out).Elem().FieldByName("Items"), func(p uintptr) {
			if seen[p] {
				t.Fatalf("the copy of %T shares memory with the original", in)
			}
		})
	}
}
