//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// TestCreateInitial: an initial object that others already have is rejected, except for a definition or a namespace,
// which the harness then does not delete.
func TestCreateInitial(t *testing.T) {
	create := func(g *externalCluster, o *unstructured.Unstructured, f *fakeCluster) error {
		to, err := resourceFor(f, g.harness.mapper, o)
		if err != nil {
			t.Fatal(err)
		}
		return g.createInitial(t.Context(), to, o)
	}
	g, f := fakeExternal(t)
	_, theirs := f.add("Pod", "default", "theirs", "")
	err := create(g, theirs, f)
	const want = "copies.yaml: Pod theirs already exists in the cluster, and a rehearsal would change it: use another name in the scenario, or delete the object"
	var rejected *ScenarioError
	if !errors.As(err, &rejected) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	g.harness.mapper = namespaceKinds{kinds()}
	_, namespace := f.add("Namespace", "", "theirs", "")
	if err := create(g, namespace, f); err != nil || len(g.initial) > 0 {
		t.Errorf("a namespace that exists gives %v, and %d initial objects", err, len(g.initial))
	}
	f.fail = func(string, string) error { return errors.New("a quota is exceeded") }
	theirs.SetName("new")
	if err := create(g, theirs, f); err == nil || err.Error() != "create Pod new: a quota is exceeded" {
		t.Errorf("%v", err)
	}
	f.fail = nil
	key := initialWeb(t, g)
	if len(g.initial) != 1 || g.initial[0].key != key || !g.created.has(g.initial[0].uid) {
		t.Errorf("initial objects %+v, want %s", g.initial, key)
	}
}

// TestCheckEmpty: a namespace with objects of others is rejected, with the first object and how to delete it.
func TestCheckEmpty(t *testing.T) {
	g, f := fakeExternal(t)
	f.add("Pod", "elsewhere", "theirs", "")
	f.add("ServiceAccount", "default", "default", "")
	if err := g.checkEmpty(); err != nil {
		t.Error(err)
	}
	f.add("Pod", "default", "theirs", "")
	const want = "copies.yaml: namespace default of the cluster is not empty: it contains Pod theirs. A rehearsal deletes objects there: " +
		"give the scenario its own namespace, or delete the object (kubectl delete -n default pod theirs)"
	if err := g.checkEmpty(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCheckSteps: a step may not delete a cluster-scoped object that existed before, because it cannot be restored
// exactly.
func TestCheckSteps(t *testing.T) {
	for step, rejected := range map[string]bool{
		"delete: {resource: nodes, name: theirs}":               true,
		"delete: {resource: nodes, selector: a=b}":              true,
		"delete: {resource: nodes, name: later}":                false, // a step may create it
		"delete: {resource: nodes, name: initial}":              false,
		"delete: {resource: webs.example.com, name: a}":         false,
		"delete: {resource: unknown.example.com, name: a}":      false, // the step itself fails
		"patch: {resource: nodes, name: theirs, patch: {a: b}}": false,
	} {
		g, f := fakeExternal(t)
		s, err := scenario.Read("copies.yaml", []byte(stepsScenario(step)), nil)
		if err != nil {
			t.Fatal(err)
		}
		g.harness.o.Scenario = s
		f.add("Node", "", "theirs", "")
		f.add("Node", "", "initial", "")
		g.initial = []initialObject{{key: "/nodes/initial"}}
		err = g.checkSteps(snapshotOf(g))
		if (err != nil) != rejected {
			t.Errorf("%s: %v", step, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "copies.yaml: line 9: delete nodes") || err != nil && !strings.HasSuffix(err.Error(), "the object existed before, and cannot be restored exactly") {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// TestOwns: a fault may change what the run created, and what belongs to it by its controllers, in the namespaces of the
// scenario.
func TestOwns(t *testing.T) {
	g, f := fakeExternal(t)
	chain := func(namespace, prefix, first string, length int) (last *unstructured.Unstructured) {
		owner := first
		for n := range length {
			_, last = f.add("Pod", namespace, fmt.Sprint(prefix, n), owner)
			if n > 0 || owner != "" {
				refs := last.GetOwnerReferences()
				refs[0].Kind, refs[0].Name = "Pod", fmt.Sprint(prefix, n-1)
				last.SetOwnerReferences(refs)
				last = f.put(keyOf(pods, namespace, last.GetName()), last)
			}
			owner = string(last.GetUID())
		}
		return last
	}
	created := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		g.created.add(keyOf(pods, o.GetNamespace(), o.GetName()), o.GetUID())
		return o
	}
	ours := created(chain("default", "ours", "", 1))
	g.created.add("/pods/default/deployment", "uid-deployment")
	for name, c := range map[string]struct {
		o    *unstructured.Unstructured
		want bool
	}{
		"created by the run":                  {ours, true},
		"created by the run, elsewhere":       {created(chain("elsewhere", "ours", "", 1)), true},
		"of an object that the run created":   {chain("default", "a", "uid-deployment", 1), true},
		"of a dependent of such an object":    {chain("default", "b", "uid-deployment", 3), true},
		"of others":                           {chain("default", "c", "", 1), false},
		"of a dependent of others":            {chain("default", "d", "", 3), false},
		"too deep":                            {chain("default", "e", "uid-deployment", 7), false},
		"of the run's object, elsewhere":      {chain("elsewhere", "f", "uid-deployment", 1), false},
		"of a controller that does not exist": {chain("default", "g", "uid-unknown", 1), false},
	} {
		o := history.Object{Resource: "pods", Namespace: c.o.GetNamespace(), Name: c.o.GetName(), UID: string(c.o.GetUID())}
		equal(t, name, c.want, g.owns(t.Context(), o))
		if name != "created by the run" && name != "created by the run, elsewhere" {
			o.UID = "replaced"
			equal(t, name+", with another UID", false, g.owns(t.Context(), o))
		}
		o.UID = ""
		equal(t, name+", without a UID", false, g.owns(t.Context(), o))
	}
	equal(t, "a kind that is not served", false, g.owns(t.Context(), history.Object{Resource: "jobs.batch", Namespace: "default", Name: "a", UID: "1"}))
}

// TestSetFinalizerConflict: setFinalizer reads the object again if others have written it in between, five times.
func TestSetFinalizerConflict(t *testing.T) {
	for name, c := range map[string]struct {
		conflicts, requests int
		other, succeeds     bool
	}{
		"none":            {0, 1, false, true},
		"two":             {2, 3, false, true},
		"again and again": {9, 5, false, false},
		"another error":   {1, 1, true, false},
	} {
		g, f := fakeExternal(t)
		key, o := f.add("Node", "", "n", "", "theirs")
		left := c.conflicts
		f.fail = func(verb, _ string) error {
			switch left--; {
			case verb != "patch":
				left++
				return nil
			case left < 0:
				return nil
			case c.other:
				return errors.New("no connection")
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))
		}
		to, _ := resourceFor(g.client, kinds(), o)
		err := setFinalizer(t.Context(), to, "n", o.GetUID(), true)
		equal(t, name, c.succeeds, err == nil)
		equal(t, name, c.requests, len(f.requests))
		equal(t, name, c.succeeds, slices.Contains(f.objects[key].GetFinalizers(), fault.InterferenceFinalizer))
	}
}

// TestClearFinalizers: the interference finalizers that a killed rehearsal left are removed, and no others.
func TestClearFinalizers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := fakeExternal(t)
		left, _ := f.add("Pod", "elsewhere", "left", "", "theirs", fault.InterferenceFinalizer)
		_, o := f.add("Pod", "default", "mentions", "")
		o.SetAnnotations(map[string]string{"note": fault.InterferenceFinalizer})
		f.put("/pods/default/mentions", o)
		f.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
		if err := g.clearFinalizers(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, "requests", []string{"patch pods/elsewhere/left"}, f.requests)
		equal(t, "finalizers", []string{"theirs"}, f.objects[left].GetFinalizers())
		f.add("Pod", "default", "other", "", fault.InterferenceFinalizer)
		f.fail = func(verb, _ string) error {
			if verb == "patch" {
				return errors.New("forbidden")
			}
			return nil
		}
		want := "remove finalizer " + fault.InterferenceFinalizer + ", which an earlier rehearsal left, from pods other: forbidden"
		if err := g.clearFinalizers(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// paged is a resource whose list has three pages, and whose continue token expires some times.
type paged struct {
	dynamic.ResourceInterface
	expires, lists int
}

func (p *paged) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	p.lists++
	list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, 2)}
	switch {
	case o.Limit != pageSize:
		return nil, fmt.Errorf("limit %d", o.Limit)
	case o.Continue == "":
		list.SetContinue("second")
	case o.Continue == "second" && p.expires > 0:
		p.expires--
		return nil, apierrors.NewResourceExpired("too old")
	case o.Continue == "second":
		list.SetContinue("third")
	}
	return list, nil
}

// TestListExpired: a list starts again if its continue token expires, twice.
func TestListExpired(t *testing.T) {
	for expires, want := range map[int]string{0: "6 after 3", 1: "6 after 5", 2: "6 after 7", 3: "expired after 6"} {
		p := &paged{expires: expires}
		all, err := listAll(t.Context(), p)
		got := fmt.Sprintf("expired after %d", p.lists)
		if err == nil {
			got = fmt.Sprintf("%d after %d", len(all.Items), p.lists)
		} else if !apierrors.IsResourceExpired(err) {
			t.Error(err)
		}
		equal(t, fmt.Sprintf("%d expiries", expires), want, got)
	}
}

// TestUIDOf: the UID of an object that cannot be decoded is unknown.
func TestUIDOf(t *testing.T) {
	_, kv := thing("Pod", "default", "a", "7", "", 1)
	equal(t, "UID", types.UID("7"), uidOf(kv))
	kv.Value = []byte("{")
	equal(t, "not JSON", types.UID(""), uidOf(kv))
}
