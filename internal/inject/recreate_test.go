package inject_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// TestRecreation: the new object has what the user wrote, and nothing of what controllers or the server wrote.
func TestRecreation(t *testing.T) {
	type content = map[string]any
	old := &unstructured.Unstructured{Object: content{
		"apiVersion": "v1", "kind": "Pod", "spec": content{"a": "user", "b": "controller"}, "status": content{"c": "controller"},
		"metadata": content{"name": "p-1", "namespace": "n", "generateName": "p-", "uid": "u", "resourceVersion": "9", "creationTimestamp": "x", "generation": int64(2)},
	}}
	edits := []inject.Edit{{
		Before: content{"metadata": content{"resourceVersion": "3", "labels": content{"x": "1", "y": "2"}}, "spec": content{"a": "first", "b": "controller"}},
		After:  content{"metadata": content{"resourceVersion": "4", "labels": content{"y": "2"}}, "spec": content{"a": "user", "b": "controller"}},
	}}
	created := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"p-","labels":{"x":"1","y":"2"}},"spec":{"a":"first"}}`)
	for _, c := range []struct {
		created []byte
		want    string
	}{
		{created, `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"y":"2"},"name":"p-1","namespace":"n"},"spec":{"a":"user"}}`},
		{nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p-1","namespace":"n"},"spec":{"a":"user","b":"controller"}}`},
	} {
		if q := inject.Recreation(c.created, edits, old); q.Method != "POST" || string(q.Body) != c.want {
			t.Errorf("%s\n%s\nwant %s", q.Method, q.Body, c.want)
		}
	}
	job := &unstructured.Unstructured{Object: content{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": content{"name": "j", "uid": "u", "labels": content{"job": "j", "uid": "u", "mine": "yes"}},
		"spec": content{"template": content{"metadata": content{"labels": content{"job": "j", "uid": "u"}}}},
	}}
	edits = []inject.Edit{{Before: content{}, After: content{"metadata": content{"labels": content{"job": "j", "uid": "u", "mine": "yes"}}}}}
	if q := inject.Recreation([]byte(`{"apiVersion":"batch/v1","kind":"Job"}`), edits, job); string(q.Body) != `{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"mine":"yes"},"name":"j"}}` {
		t.Errorf("labels that the API server copies from the template: %s", q.Body)
	}
	if old.GetUID() != "u" {
		t.Error("the old object has changed")
	}
	if back := inject.RevertEdit(old); string(back.Body) != `{"metadata":{"annotations":{"rehearse-k8s.github.io/edited":null},"uid":"u"}}` {
		t.Errorf("%s", back.Body)
	}
}

// TestCollection: an object is collected once all its owners are gone because of faults, and not because of anything else.
func TestCollection(t *testing.T) {
	dependent := func(owners ...string) map[string]any {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
		var refs []metav1.OwnerReference
		for _, uid := range owners {
			refs = append(refs, metav1.OwnerReference{UID: types.UID(uid), Name: uid})
		}
		o.SetOwnerReferences(refs)
		return o.Object
	}
	var c inject.Collection
	if !c.Empty() || c.Gone("a") {
		t.Error("nothing was deleted")
	}
	c.Deleted("a", "recreate nth=1")
	if _, ok := c.Collects(dependent("a")); ok {
		t.Error("the owner still exists")
	}
	if !c.Gone("a") || c.Gone("b") {
		t.Error("want only a")
	}
	if because, ok := c.Collects(dependent("a")); !ok || because != "recreate nth=1" {
		t.Errorf("%q, %t", because, ok)
	}
	terminating := &unstructured.Unstructured{Object: dependent("a")}
	terminating.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	for _, other := range []map[string]any{dependent(), dependent("b"), dependent("a", "b"), terminating.Object} {
		if _, ok := c.Collects(other); ok {
			t.Errorf("%v is collected", other)
		}
	}
	claim := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "u", "finalizers": []any{"x/y", "kubernetes.io/pvc-protection"}}}}
	if q := inject.Collect(claim); len(q) != 2 || string(q[1].Body) != `{"metadata":{"finalizers":["x/y"],"uid":"u"}}` {
		t.Errorf("%+v", q)
	}
}

// TestCollectionOnce: a collection is scheduled once at a time, and happens only to the object for which it was scheduled, if
// its owners are still gone.
func TestCollectionOnce(t *testing.T) {
	object := func(uid, owner string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
		o.SetUID(types.UID(uid))
		o.SetOwnerReferences([]metav1.OwnerReference{{UID: types.UID(owner), Name: owner}})
		return o
	}
	var c inject.Collection
	if c.Schedule("p", object("p", "gone").Object) {
		t.Error("the owner exists")
	}
	c.Deleted("gone", "delete nth=1")
	c.Gone("gone")
	for current, want := range map[*unstructured.Unstructured]bool{
		object("p", "gone"): true, object("p", "other"): false, object("q", "gone"): false, nil: false,
	} {
		if !c.Schedule("p", object("p", "gone").Object) || c.Schedule("p", object("p", "gone").Object) {
			t.Error("want a schedule, and no second one")
		}
		if because, ok := c.Due("p", current); ok != want || ok && because != "delete nth=1" {
			t.Errorf("%v: %q, %t", current, because, ok)
		}
	}
}
