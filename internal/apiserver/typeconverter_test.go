package apiserver

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// writers are the field managers of the versions of a kind.
type writers struct {
	t        testing.TB
	managers map[string]*managedfields.FieldManager
	hub      schema.GroupVersionKind
	kinds    map[string]schema.GroupVersionKind
}

func newWriters(t testing.TB, c managedfields.TypeConverter, kinds []schema.GroupVersionKind) *writers {
	t.Helper()
	scheme := legacyscheme.Scheme
	w := &writers{t, map[string]*managedfields.FieldManager{}, kinds[0].GroupKind().WithVersion(runtime.APIVersionInternal), map[string]schema.GroupVersionKind{}}
	for _, kind := range kinds {
		m, err := managedfields.NewDefaultFieldManager(c, runtime.UnsafeObjectConvertor(scheme), scheme, scheme, kind, w.hub.GroupVersion(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.managers[kind.Version], w.kinds[kind.Version] = m, kind
	}
	return w
}

// internal returns the object of an update in the version of the server, as a request in the given version would bring it.
func (w *writers) internal(x write, live runtime.Object) runtime.Object {
	w.t.Helper()
	content := randomObject(w.t, w.kinds[x.version], x.seed)
	if x.base != 0 {
		other := content
		content = randomObject(w.t, w.kinds[x.version], x.base)
		takeOnePart(rand.New(rand.NewPCG(uint64(x.seed), 1)), reflect.ValueOf(content), reflect.ValueOf(other))
	}
	o, err := legacyscheme.Scheme.ConvertToVersion(content, w.hub.GroupVersion())
	if err != nil {
		w.t.Fatal(err)
	}
	m, _ := meta.Accessor(o)
	m.SetName("a")
	m.SetUID(types.UID("u"))
	if live != nil {
		of, _ := meta.Accessor(live)
		m.SetManagedFields(slices.Clone(of.GetManagedFields()))
	}
	return o
}

// takeOnePart sets one part of a value to that of another value of its type: a field of a struct, an element of a list, or a part of one of these.
func takeOnePart(r *rand.Rand, of, from reflect.Value) {
	switch kind := of.Kind(); {
	case kind == reflect.Pointer && !of.IsNil() && !from.IsNil():
		takeOnePart(r, of.Elem(), from.Elem())
	case kind == reflect.Struct && of.NumField() > 0 && !isMarshaler(of.Type()) && r.IntN(8) > 0:
		n := r.IntN(of.NumField())
		takeOnePart(r, of.Field(n), from.Field(n))
	case kind == reflect.Slice && min(of.Len(), from.Len()) > 0 && r.IntN(4) > 0:
		n := r.IntN(min(of.Len(), from.Len()))
		takeOnePart(r, of.Index(n), from.Index(n))
	default:
		of.Set(from)
	}
}

// write is one write to an object.
type write struct {
	version, manager string
	seed             int64
	base             int64 // if it is not 0, an update that takes one part of the object of seed, and everything else from the object of base
	apply            bool
}

// after returns the object after writes, and the answers.
func (w *writers) after(writes []write) (states []string) {
	w.t.Helper()
	live, err := legacyscheme.Scheme.New(w.hub)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, x := range writes {
		var is runtime.Object
		if x.apply {
			is, err = w.managers[x.version].Apply(live, w.patch(x), x.manager, true)
		} else {
			is, err = w.managers[x.version].Update(live, w.internal(x, live), x.manager)
		}
		if err != nil {
			lines := strings.Split(err.Error(), "\n")
			slices.Sort(lines) // upstream's own order varies
			states = append(states, strings.Join(lines, "\n"))
			continue
		}
		live = is
		states = append(states, w.state(live))
	}
	return states
}

// state describes an object and its managed fields, without their times.
func (w *writers) state(live runtime.Object) string {
	w.t.Helper()
	live = live.DeepCopyObject()
	m, _ := meta.Accessor(live)
	var fields []string
	for _, f := range m.GetManagedFields() {
		fields = append(fields, fmt.Sprintf("%s %s %s %s", f.Manager, f.Operation, f.APIVersion, f.FieldsV1))
	}
	slices.Sort(fields) // they are in the order of their times, which have no fractions of a second
	m.SetManagedFields(nil)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprint(strings.Join(fields, "\n"), object)
}

// patch returns the configuration of an apply: a random object without its status.
func (w *writers) patch(x write) runtime.Object {
	w.t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(randomObject(w.t, w.kinds[x.version], x.seed))
	if err != nil {
		w.t.Fatal(err)
	}
	delete(content, "status")
	o := &unstructured.Unstructured{Object: content}
	o.SetName("a")
	o.SetUID("")
	o.SetCreationTimestamp(metav1.Time{})
	o.SetGroupVersionKind(w.kinds[x.version])
	return o
}

// TestSameManagedFields: updates and applies by several managers, in all versions of a kind, give the same managed fields and
// the same objects as with upstream's converter.
func TestSameManagedFields(t *testing.T) {
	upstream, kinds := builtIn(t)
	ours := newTypeConverter(upstream)
	versions := map[schema.GroupKind][]schema.GroupVersionKind{}
	for _, k := range kinds {
		versions[k.GroupKind()] = append(versions[k.GroupKind()], k)
	}
	compared, failed := 0, 0
	for kind, all := range versions {
		if !legacyscheme.Scheme.Recognizes(kind.WithVersion(runtime.APIVersionInternal)) {
			continue
		}
		theirs, own := newWriters(t, upstream, all), newWriters(t, ours, all)
		for seed := range int64(8) {
			var writes []write
			for n := range int64(6) {
				w := write{version: all[(seed+n)%int64(len(all))].Version, manager: string('a' + rune(n%4)), seed: seed*100 + n, apply: n%3 == 2}
				if seed >= 4 {
					w.base = 1 + seed
				}
				writes = append(writes, w)
			}
			want, got := theirs.after(writes), own.after(writes)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%s, %+v (-upstream +ours):\n%s", kind, writes, d)
			}
			for _, s := range want {
				compared++
				if !strings.Contains(s, " Update ") && !strings.Contains(s, " Apply ") {
					failed++
				}
			}
		}
	}
	t.Logf("%d writes compared, %d of them rejected", compared, failed)
	if failed > compared/2 {
		t.Errorf("%d of %d writes were rejected", failed, compared)
	}
}
