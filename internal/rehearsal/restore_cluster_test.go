//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRecreate: an object of others is created again only if the run deleted it, or gave it an owner and so had it
// deleted; what others deleted stays deleted.
func TestRecreate(t *testing.T) {
	const bare, labelled = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"1"}}`, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"1","labels":{"run":"yes"}}}`
	const owned = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"1","ownerReferences":[{"uid":"9","name":"o"}]}}`
	for name, c := range map[string]struct {
		writes [][2]string
		ours   bool // the run created the object
		want   bool
	}{
		"nothing is known of its writes":        {},
		"deleted by the run":                    {writes: [][2]string{{bare, ""}}, want: true},
		"changed and deleted by the run":        {writes: [][2]string{{bare, labelled}, {labelled, ""}}, want: true},
		"changed by the run, deleted by others": {writes: [][2]string{{bare, labelled}}},
		"given an owner, then collected":        {writes: [][2]string{{bare, owned}}, want: true},
		"created and deleted by the run":        {writes: [][2]string{{"", bare}, {bare, ""}}},
		"created by another run":                {writes: [][2]string{{bare, ""}}, ours: true},
	} {
		g, f := fakeExternal(t)
		for _, w := range c.writes {
			g.written["/nodes/n"] = append(g.written["/nodes/n"], write{decoded(t, w[0]), decoded(t, w[1])})
		}
		if c.ours {
			g.created.add("/nodes/n", "1")
		}
		if err := g.recreate(t.Context(), "/nodes/n"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		o := f.objects["/nodes/n"]
		if (o != nil) != c.want || o != nil && (len(o.GetLabels()) > 0 || len(o.GetOwnerReferences()) > 0) {
			t.Errorf("%s: %v", name, o)
		}
		if _, pending := g.written["/nodes/n"]; c.want && pending {
			t.Errorf("%s: it would be created again", name)
		}
	}
}

// TestRevertObjectConflict: a revert that conflicts with a write of others is tried again with the next state; another
// rejection is an error.
func TestRevertObjectConflict(t *testing.T) {
	for name, c := range map[string]struct {
		fail error
		done bool
		want string
	}{
		"accepted": {},
		"conflict": {fail: apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))},
		"gone":     {fail: apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n")},
		"rejected": {fail: errors.New("a webhook is down"), want: "nodes/n still contains writes of the run: a webhook is down"},
	} {
		g, f := fakeExternal(t)
		key, was := f.add("Node", "", "n", "")
		f.capture(g)
		is := was.DeepCopy()
		is.SetLabels(map[string]string{"run": "yes"})
		is = f.put(key, is)
		g.written[key] = []write{{was.Object, is.Object}}
		f.fail = func(string, string) error { return c.fail }
		_, left := g.revertAll(t.Context(), snapshotOf(g))
		if c.want == "" {
			c.want = "nodes/n still contains writes of the run"
		}
		equal(t, name, []string{c.want}, left)
		equal(t, name, []string{"update nodes/n"}, f.requests)
		if f.fail = nil; c.fail == nil {
			_, left = g.revertAll(t.Context(), snapshotOf(g))
			equal(t, name+", afterwards", 0, len(left))
			equal(t, name+", afterwards", 0, len(f.objects[key].GetLabels()))
		}
	}
}

// TestDeleteCreated: the initial objects are deleted in reverse order, by UID; what others replaced stays.
func TestDeleteCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := fakeExternal(t)
		web := initialWeb(t, g)
		node, n := f.add("Node", "", "n", "")
		replaced, r := f.add("Pod", "default", "replaced", "")
		for key, o := range map[string]*unstructured.Unstructured{node: n, replaced: r} {
			to, _ := resourceFor(f, kinds(), o)
			initial := initialObject{to: to, key: key, name: o.GetName(), uid: o.GetUID()}
			if key == replaced {
				initial.uid = "another"
				g.initial = append([]initialObject{initial}, g.initial...)
				continue
			}
			g.initial = append(g.initial, initial)
		}
		f.requests = nil
		if err := g.deleteCreated(t.Context()); err != nil {
			t.Error(err)
		}
		equal(t, "requests", []string{"delete nodes/n", "delete " + web[1:], "delete pods/default/replaced"}, f.requests)
		equal(t, "objects", replaced, f.keys())
		if err := g.deleteCreated(t.Context()); err != nil {
			t.Errorf("objects that are gone give %v", err)
		}
	})
}

// TestDeleteCreatedErrors: an object that cannot be deleted, or that waits for a finalizer, is named.
func TestDeleteCreatedErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := fakeExternal(t)
		web := initialWeb(t, g)
		o := f.objects[web].DeepCopy()
		o.SetFinalizers([]string{"theirs"})
		f.put(web, o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := g.deleteCreated(ctx)
		const waits = "delete webs.example.com/default/web, which the rehearsal created: it is being deleted and still exists"
		if err == nil || err.Error() != waits {
			t.Errorf("%v, want %s", err, waits)
		}
		f.fail = func(string, string) error { return errors.New("no connection") }
		if err := g.deleteCreated(ctx); err == nil || err.Error() != "delete web, which the rehearsal created: no connection\n"+waits {
			t.Errorf("%v", err)
		}
		g.mirror.fail(errors.New("watch pods: the watch ended"))
		if err := g.awaitDeleted(ctx); err == nil || err.Error() != "watch pods: the watch ended" {
			t.Errorf("%v", err)
		}
	})
}

// TestRemoveLeases: the leases of a run are deleted; one that is gone or another client's is forgotten, one that cannot be
// deleted is named and tried again.
func TestRemoveLeases(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for name, c := range map[string]struct {
		fail       error
		want       string
		remembered bool
	}{
		"deleted":  {},
		"gone":     {fail: apierrors.NewNotFound(leases, "leader")},
		"replaced": {fail: apierrors.NewConflict(leases, "leader", errors.New("another UID"))},
		"rejected": {fail: errors.New("forbidden"), want: "delete lease default/leader: forbidden", remembered: true},
	} {
		g, f := fakeExternal(t)
		key := keyOf(leases, "default", "leader")
		f.objects[key] = &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "leader", "uid": "7"}}}
		g.created.add(key, "7")
		g.created.add("/pods/default/other", "8")
		f.fail = func(string, string) error { return c.fail }
		got := ""
		if err := g.removeLeases(t.Context()); err != nil {
			got = err.Error()
		}
		equal(t, name, c.want, got)
		equal(t, name, []string{"delete leases.coordination.k8s.io/default/leader"}, f.requests)
		equal(t, name, c.remembered, g.created.uidOf(key) != "")
	}
}
