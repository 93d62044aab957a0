package store

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// eachSharing calls a test for a store whose objects have their own parts, and for one whose objects share equal parts.
func eachSharing(t *testing.T, test func(t *testing.T, ws *Worlds)) {
	for name, share := range map[string]bool{"own parts": false, "shared parts": true} {
		t.Run(name, func(t *testing.T) { test(t, New(Options{ShareParts: share})) })
	}
}

// TestPartsAreShared: with ShareParts, objects of one namespace share their equal parts, an update does not change those of
// others, and each object keeps what was written.
func TestPartsAreShared(t *testing.T) {
	eachSharing(t, func(t *testing.T, ws *Worlds) {
		s := pods(t, ws, nil)
		for name, fields := range map[string]string{"a": `{"f:spec":{}}`, "b": `{"f:spec":{}}`, "c": `{"f:status":{}}`} {
			p := pod("ns", name)
			p.Labels = map[string]string{"app": "web"}
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", FieldsV1: metav1.NewFieldsV1(fields)}}
			mustCreate(t, t.Context(), s, p)
		}
		of := func(name string) *example.Pod {
			v, _ := ws.World("").live("/pods/ns/" + name)
			obj, _, err := s.object(t.Context(), "/pods/ns/"+name, v)
			if err != nil {
				t.Fatal(err)
			}
			return obj.(*example.Pod)
		}
		if shares := reflect.ValueOf(of("a").Labels).Pointer() == reflect.ValueOf(of("b").Labels).Pointer(); shares != ws.options.ShareParts {
			t.Errorf("two pods share their labels: %v, want %v", shares, ws.options.ShareParts)
		}
		mustUpdate(t, t.Context(), s, "/pods/ns/a", func(p *example.Pod) {
			p.Labels["app"] = "db"
			p.ManagedFields[0].FieldsV1.SetRawString(`{"f:metadata":{}}`)
		})
		for name, want := range map[string]string{"a": `{"f:metadata":{}} db`, "b": `{"f:spec":{}} web`, "c": `{"f:status":{}} web`} {
			if got := of(name).ManagedFields[0].FieldsV1.GetRawString() + " " + of(name).Labels["app"]; got != want {
				t.Errorf("%s has %s, want %s", name, got, want)
			}
		}
		checkShared(t, s)
	})
}

// TestPartsOfRawValuesAreShared: objects that were written as bytes, as those of a store's file are, share their equal parts when readers
// decode them.
func TestPartsOfRawValuesAreShared(t *testing.T) {
	from := New(Options{})
	before := pods(t, from, nil)
	eachSharing(t, func(t *testing.T, ws *Worlds) {
		s := pods(t, ws, nil)
		labels := map[string]uintptr{}
		for _, name := range []string{"a", "b"} {
			key := "/pods/ns/" + name
			if _, _, _, _, ok := from.World("").RawGet(key); !ok {
				p := pod("ns", name)
				p.Labels = map[string]string{"app": "web"}
				mustCreate(t, t.Context(), before, p)
			}
			value, _, _, _, _ := from.World("").RawGet(key)
			if _, ok := ws.World("").RawPut(key, value, 0); !ok {
				t.Fatalf("%s exists", key)
			}
			v, _ := ws.World("").live(key)
			obj, _, err := s.object(t.Context(), key, v)
			if err != nil {
				t.Fatal(err)
			}
			labels[name] = reflect.ValueOf(obj.(*example.Pod).Labels).Pointer()
		}
		if shares := labels["a"] == labels["b"]; shares != ws.options.ShareParts {
			t.Errorf("two pods share their labels: %v, want %v", shares, ws.options.ShareParts)
		}
		checkShared(t, s)
	})
}

// TestOwnersMayChange checks that a caller that owns an object can modify all of it without any
// effect on others.
func TestOwnersMayChange(t *testing.T) { eachSharing(t, testOwnersMayChange) }

func testOwnersMayChange(t *testing.T, ws *Worlds) {
	s := pods(t, ws, nil)
	spoil := func(p *example.Pod) {
		p.Name, p.Labels["a"], p.Annotations["b"] = "spoilt", "spoilt", "spoilt"
		p.Finalizers[0] = "spoilt"
	}
	in := pod("ns", "p")
	in.Labels, in.Annotations, in.Finalizers = map[string]string{"a": "a"}, map[string]string{"b": "b"}, []string{"c"}
	spoil(mustCreate(t, t.Context(), s, in))
	spoil(in)

	failing := storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		spoil(obj.(*example.Pod))
		return nil, storage.NewInvalidObjError("p", "no")
	})
	if err := s.GuaranteedUpdate(t.Context(), "/pods/ns/p", &example.Pod{}, false, nil, failing, nil); err == nil {
		t.Error("a failing update succeeded")
	}
	out := mustUpdate(t, t.Context(), s, "/pods/ns/p", func(p *example.Pod) { p.Generation++ })
	spoil(out)
	same := mustUpdate(t, t.Context(), s, "/pods/ns/p", func(*example.Pod) {})
	spoil(same)
	checkShared(t, s)
	spoil(mustDelete(t, t.Context(), s, "/pods/ns/p"))
	checkShared(t, s)
}

// TestReadersMayChangeTheTop checks that the changes that the registry and the encoders make to an
// object affect no other reader.
func TestReadersMayChangeTheTop(t *testing.T) { eachSharing(t, testReadersMayChangeTheTop) }

func testReadersMayChangeTheTop(t *testing.T, ws *Worlds) {
	s := pods(t, ws, nil)
	in := pod("ns", "p")
	in.Labels = map[string]string{"a": "a"}
	mustCreate(t, t.Context(), s, in)
	direct := mustWatch(t, t.Context(), s, everything(1))

	spoil := func(p *example.Pod) {
		p.Name, p.Kind, p.ResourceVersion, p.Labels, p.Spec.NodeName = "spoilt", "spoilt", "9", nil, "spoilt"
	}
	got := &example.Pod{}
	if err := s.Get(t.Context(), "/pods/ns/p", storage.GetOptions{}, got); err != nil {
		t.Fatal(err)
	}
	spoil(got)
	spoil(&mustList(t, t.Context(), s, storage.ListOptions{Predicate: storage.Everything}).Items[0])
	spoil(next(t, direct).Object.(*example.Pod))
	checkShared(t, s)
}

// TestCacheGetsTheObjectItself checks that a watch of the watch cache receives the shared object,
// and that a deletion's object is created once for all watches.
func TestCacheGetsTheObjectItself(t *testing.T) { eachSharing(t, testCacheGetsTheObjectItself) }

func testCacheGetsTheObjectItself(t *testing.T, ws *Worlds) {
	s := pods(t, ws, nil)
	opts := everything(1)
	opts.ProgressNotify = true
	a, b := mustWatch(t, t.Context(), s, opts), mustWatch(t, t.Context(), s, opts)
	mustCreate(t, t.Context(), s, pod("ns", "p"))
	mustDelete(t, t.Context(), s, "/pods/ns/p")
	for range 2 {
		if one, two := next(t, a), next(t, b); one.Object != two.Object {
			t.Errorf("%s: the watches received two objects", one.Type)
		}
	}
	checkShared(t, s)
}

// TestWatchOfARunGetsItsOwn checks that a watch of a run's world receives a copy: it takes
// bookmarks from the store like the watch cache, but the server encodes its objects, which writes
// the kind into them.
func TestWatchOfARunGetsItsOwn(t *testing.T) { eachSharing(t, testWatchOfARunGetsItsOwn) }

func testWatchOfARunGetsItsOwn(t *testing.T, ws *Worlds) {
	s := pods(t, ws, nil)
	if _, err := ws.Fork("run", RunOptions{Revision: 1}); err != nil {
		t.Fatal(err)
	}
	ctx := WithRun(t.Context(), "run")
	opts := everything(1)
	opts.Predicate.AllowWatchBookmarks = true
	a, b := mustWatch(t, ctx, s, opts), mustWatch(t, ctx, s, opts)
	mustCreate(t, ctx, s, pod("ns", "p"))
	mustDelete(t, ctx, s, "/pods/ns/p")
	for range 2 {
		if one, two := next(t, a), next(t, b); one.Object == two.Object {
			t.Errorf("%s: both watches received one object", one.Type)
		}
	}
}

// TestOtherStorageReadsForItself checks that a Storage never returns an object that another
// Storage's codec decoded.
func TestOtherStorageReadsForItself(t *testing.T) { eachSharing(t, testOtherStorageReadsForItself) }

func testOtherStorageReadsForItself(t *testing.T, ws *Worlds) {
	first, second := pods(t, ws, nil), pods(t, ws, nil)
	mustCreate(t, t.Context(), first, pod("ns", "p"))
	v, _ := ws.World("").live("/pods/ns/p")
	mine, _, err := first.object(t.Context(), "/pods/ns/p", v)
	if err != nil {
		t.Fatal(err)
	}
	theirs, _, err := second.object(t.Context(), "/pods/ns/p", v)
	if err != nil {
		t.Fatal(err)
	}
	if mine == theirs {
		t.Error("the object of another Storage was shown")
	}
	if again, _, _ := second.object(t.Context(), "/pods/ns/p", v); again != theirs {
		t.Error("the second read was not cached")
	}
	checkShared(t, first)
}

// things returns a Storage of unstructured objects of one version. Its codec accepts any version.
func things(t testing.TB, ws *Worlds, version string) *objects {
	t.Helper()
	gvk := schema.GroupVersionKind{Group: "g", Version: version, Kind: "Thing"}
	s, err := ws.newObjects(Config{
		Codec: versionedJSON{gvk.GroupVersion()},
		NewFunc: func() runtime.Object {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(gvk)
			return u
		},
		NewListFunc: func() runtime.Object {
			u := &unstructured.UnstructuredList{}
			u.SetGroupVersionKind(gvk.GroupVersion().WithKind("ThingList"))
			return u
		},
		ResourcePrefix: "/things/",
		GroupResource:  schema.GroupResource{Group: "g", Resource: "things"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func thing(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"})
	u.SetName(name)
	u.SetLabels(map[string]string{"a": "b"})
	return u
}

// TestUnstructured checks custom resources: they are maps, so copying the struct does not copy the
// object.
func TestUnstructured(t *testing.T) { eachSharing(t, testUnstructured) }

func testUnstructured(t *testing.T, ws *Worlds) {
	s := things(t, ws, "v1")
	opts := everything(1)
	opts.ProgressNotify = true
	w, err := s.Watch(t.Context(), "/things/", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(w)
	spoil := func(obj runtime.Object) {
		u := obj.(*unstructured.Unstructured)
		u.SetName("spoilt")
		u.SetKind("Spoilt")
		u.SetResourceVersion("9")
		u.SetLabels(map[string]string{"spoilt": ""})
		u.Object["spec"] = "spoilt"
	}
	if err := s.Create(t.Context(), "/things/t", thing("t"), s.newFunc(), 0); err != nil {
		t.Fatal(err)
	}
	got := s.newFunc()
	if err := s.Get(t.Context(), "/things/t", storage.GetOptions{}, got); err != nil {
		t.Fatal(err)
	}
	if u := got.(*unstructured.Unstructured); u.GetResourceVersion() != "2" || u.GetName() != "t" || u.GetAPIVersion() != "g/v1" {
		t.Errorf("read %+v", u)
	}
	spoil(got)
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("g/v1")
	if err := s.GetList(t.Context(), "/things/", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list); err != nil {
		t.Fatal(err)
	}
	spoil(&list.Items[0])
	spoil(next(t, w).Object)
	checkThing(t, s)

	update := storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		u := obj.(*unstructured.Unstructured).DeepCopy()
		obj.(*unstructured.Unstructured).Object["spec"].(map[string]any)["size"] = int64(9)
		u.SetAnnotations(map[string]string{"n": "1"})
		return u, nil
	})
	if err := s.GuaranteedUpdate(t.Context(), "/things/t", s.newFunc(), false, nil, update, nil); err != nil {
		t.Fatal(err)
	}
	spoil(next(t, w).Object)
	checkThing(t, s)
}

func checkThing(t *testing.T, s *objects) {
	t.Helper()
	v, _ := s.worlds.World("").live("/things/t")
	u := v.decoded.Load().obj.(*unstructured.Unstructured)
	size, _, _ := unstructured.NestedInt64(u.Object, "spec", "size")
	if u.GetName() != "t" || u.GetKind() != "Thing" || rvOf(t, u) != v.rev || u.GetLabels()["a"] != "b" || size != 3 {
		t.Errorf("the shared object was changed: %+v", u)
	}
}

// TestUnstructuredVersions checks a kind whose versions each have a Storage over the same bytes:
// each returns objects in its version, and so does a list that asks for another version.
func TestUnstructuredVersions(t *testing.T) { eachSharing(t, testUnstructuredVersions) }

func testUnstructuredVersions(t *testing.T, ws *Worlds) {
	v1, v2 := things(t, ws, "v1"), things(t, ws, "v2")
	if err := v1.Create(t.Context(), "/things/t", thing("t"), nil, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time from the cache
		for version, s := range map[string]*objects{"g/v1": v1, "g/v2": v2} {
			got := s.newFunc()
			if err := s.Get(t.Context(), "/things/t", storage.GetOptions{}, got); err != nil {
				t.Fatal(err)
			}
			if u := got.(*unstructured.Unstructured); u.GetAPIVersion() != version {
				t.Errorf("%s: read as %s", version, u.GetAPIVersion())
			}
			for _, asked := range []string{version, "g/v3"} {
				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion(asked)
				selective := storage.SelectionPredicate{
					Label: labels.SelectorFromSet(labels.Set{"a": "b"}), Field: fields.Everything(), GetAttrs: storage.DefaultClusterScopedAttr,
				}
				if err := s.GetList(t.Context(), "/things/", storage.ListOptions{Predicate: selective, Recursive: true}, list); err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != 1 || list.Items[0].GetAPIVersion() != asked {
					t.Errorf("%s: asked for %s, listed %+v", version, asked, list.Items)
				}
			}
		}
	}
}
