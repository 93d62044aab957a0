package kruise_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/randfill"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

// TestDeepCopy fills every field, copies the object, and looks for shared memory.
func TestDeepCopy(t *testing.T) {
	fill := randfill.NewWithSeed(1).NilChance(0).NumElements(1, 2).MaxDepth(14)
	for range 20 {
		alpha, beta := &v1alpha1.CloneSetList{}, &v1beta1.CloneSetList{}
		fill.Fill(alpha)
		fill.Fill(beta)
		apart(t, alpha, alpha.DeepCopyObject())
		apart(t, beta, beta.DeepCopyObject())
		state := &kruise.InPlaceUpdateState{}
		fill.Fill(state)
		apart(t, state, state.DeepCopy())
		spec := &kruise.InPlaceUpdateSpec{}
		fill.Fill(spec)
		apart(t, spec, spec.DeepCopy())
	}
}

// TestDeepCopyOfNothing: absent fields stay absent, and empty ones stay empty.
func TestDeepCopyOfNothing(t *testing.T) {
	fill := randfill.NewWithSeed(2).NilChance(0.5).NumElements(0, 1).MaxDepth(14)
	for range 50 {
		alpha, beta := &v1alpha1.CloneSetList{}, &v1beta1.CloneSetList{}
		fill.Fill(alpha)
		fill.Fill(beta)
		apart(t, alpha, alpha.DeepCopyObject())
		apart(t, beta, beta.DeepCopyObject())
	}
	if (*v1alpha1.CloneSet)(nil).DeepCopy() != nil || (*v1alpha1.CloneSetList)(nil).DeepCopy() != nil ||
		(*v1beta1.CloneSet)(nil).DeepCopy() != nil || (*v1beta1.CloneSetList)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}

func apart(t *testing.T, in, out any) {
	t.Helper()
	if !reflect.DeepEqual(in, out) {
		t.Fatalf("equal but for what is nil and what is empty: %v (-original +copy)\n%s", equality.Semantic.DeepEqual(in, out), cmp.Diff(in, out))
	}
	seen := map[uintptr]bool{}
	eachAddress(reflect.ValueOf(in), "", func(p uintptr, _ string) { seen[p] = true })
	eachAddress(reflect.ValueOf(out), "", func(p uintptr, path string) {
		if seen[p] {
			t.Fatalf("the copy shares %s with the original", path)
		}
	})
}

// eachAddress visits the targets of pointers, slices and maps. Times contain a pointer to their location,
// which may be shared, and all empty slices have the same address.
func eachAddress(v reflect.Value, path string, visit func(uintptr, string)) {
	if v.Type().PkgPath() == "time" {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			if v.Elem().Type().Size() > 0 {
				visit(v.Pointer(), path)
			}
			eachAddress(v.Elem(), path, visit)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			visit(v.Pointer(), path)
		}
		for i := range v.Len() {
			eachAddress(v.Index(i), path+"[]", visit)
		}
	case reflect.Map:
		if !v.IsNil() {
			visit(v.Pointer(), path)
		}
		for key, value := range v.Seq2() {
			eachAddress(value, path+"["+key.String()+"]", visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// Unexported fields belong to upstream, which copies them.
			if v.Type().Field(i).IsExported() {
				eachAddress(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			}
		}
	}
}

func TestSchemes(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := v1beta1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[schema.GroupVersion]reflect.Type{
		v1alpha1.GroupVersion: reflect.TypeFor[*v1alpha1.CloneSet](),
		v1beta1.GroupVersion:  reflect.TypeFor[*v1beta1.CloneSet](),
	} {
		if o, err := s.New(version.WithKind(v1alpha1.Kind)); err != nil || reflect.TypeOf(o) != want {
			t.Errorf("%s is a %T, %v", version, o, err)
		}
	}
}
