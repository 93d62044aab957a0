//go:build unix

package rehearsal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/wire"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// externalOf returns an external cluster, without a connection, of a scenario whose namespace is default.
func externalOf(t *testing.T) *externalCluster {
	t.Helper()
	s, err := scenario.Read("copies.yaml", []byte(copyScenario), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := newExternalCluster(&Harness{o: Options{Scenario: s}, timeouts: defaultTimeouts})
	g.initialState = map[string]store.KV{}
	return g
}

// thing returns the key and the value of an object. owner is the UID of its controller, or "".
func thing(kind, namespace, name, uid, owner string, revision int64) (string, store.KV) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(types.UID(uid))
	if owner != "" {
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Thing", Name: "owner", UID: types.UID(owner), Controller: &yes}})
	}
	value, err := o.MarshalJSON()
	if err != nil {
		panic(err)
	}
	key := keyOf(schema.GroupResource{Resource: strings.ToLower(kind) + "s"}, namespace, name)
	return key, store.KV{Key: key, Value: value, ModRevision: revision}
}

// TestUnexpectedObjects: a restore deletes what did not exist before the first run, in the namespaces of the scenario
// and what the harness created elsewhere, and nothing else.
func TestUnexpectedObjects(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(g *externalCluster, held map[string]store.KV)
		want    string
	}{
		"nothing": {func(*externalCluster, map[string]store.KV) {}, ""},
		"an object that existed": {func(g *externalCluster, held map[string]store.KV) {
			key, kv := thing("Secret", "default", "a", "1", "", 5)
			held[key], g.initialState[key] = kv, kv
		}, ""},
		"a new object": {func(_ *externalCluster, held map[string]store.KV) {
			key, kv := thing("Secret", "default", "a", "1", "", 5)
			held[key] = kv
		}, "a"},
		"a new object of others in another namespace": {func(_ *externalCluster, held map[string]store.KV) {
			key, kv := thing("Secret", "elsewhere", "a", "1", "", 5)
			held[key] = kv
		}, ""},
		"what the run created in another namespace": {func(g *externalCluster, held map[string]store.KV) {
			key, kv := thing("Secret", "elsewhere", "a", "1", "", 5)
			held[key] = kv
			g.created.add(key, "1")
			g.markWritten(key)
		}, "a"},
		"another object of the name that the run created": {func(g *externalCluster, held map[string]store.KV) {
			key, kv := thing("Secret", "elsewhere", "a", "2", "", 5)
			held[key] = kv
			g.created.add(key, "1")
			g.markWritten(key)
		}, ""},
		"one that replaced an object that existed": {func(g *externalCluster, held map[string]store.KV) {
			key, was := thing("Secret", "default", "a", "1", "", 5)
			_, is := thing("Secret", "default", "a", "2", "", 9)
			held[key], g.initialState[key] = is, was
		}, "a"},
		"what the control plane creates in each namespace": {func(_ *externalCluster, held map[string]store.KV) {
			for _, o := range [][2]string{{"ServiceAccount", "default"}, {"ConfigMap", "kube-root-ca.crt"}, {"RoleBinding", "system:image-pullers"}, {"Service", "kubernetes"}} {
				key, kv := thing(o[0], "default", o[1], o[1], "", 5)
				held[key] = kv
			}
		}, ""},
		"a pod of a controller that existed": {func(g *externalCluster, held map[string]store.KV) {
			key, kv := thing("Thing", "default", "owner", "1", "", 5)
			held[key], g.initialState[key] = kv, kv
			pod, is := thing("Pod", "default", "p", "2", "1", 6)
			held[pod] = is
			claim, of := thing("Claim", "default", "c", "3", "2", 7)
			held[claim] = of
		}, ""},
		"a pod of a controller that the run has written": {func(g *externalCluster, held map[string]store.KV) {
			key, kv := thing("Thing", "default", "owner", "1", "", 5)
			held[key], g.initialState[key] = kv, kv
			g.markWritten(key)
			pod, is := thing("Pod", "default", "p", "2", "1", 6)
			held[pod] = is
		}, "p"},
		"a new controller with a pod": {func(_ *externalCluster, held map[string]store.KV) {
			key, kv := thing("Thing", "default", "owner", "1", "", 5)
			held[key] = kv
			pod, is := thing("Pod", "default", "p", "2", "1", 6)
			held[pod] = is
		}, "owner p"},
	} {
		g, held := externalOf(t), map[string]store.KV{}
		c.prepare(g, held)
		all, err := g.unexpectedObjects(held, &removals{uids: map[string]types.UID{}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var names []string
		for _, o := range all {
			names = append(names, o.GetName())
		}
		slices.Sort(names)
		equal(t, name, c.want, strings.Join(names, " "))
	}
}

// TestReplacedObject: an object that a controller recreates as soon as it is deleted becomes part of the initial state;
// otherwise a restore would delete it again and again.
func TestReplacedObject(t *testing.T) {
	g, asked := externalOf(t), &removals{uids: map[string]types.UID{}}
	key, kv := thing("Secret", "default", "token", "2", "", 9)
	asked.uids[key] = "1"
	all, err := g.unexpectedObjects(map[string]store.KV{key: kv}, asked)
	if err != nil || len(all) != 0 || uidOf(g.initialState[key]) != "2" {
		t.Errorf("%v %v, initial state %s", all, err, g.initialState[key].Value)
	}
	for uid, want := range map[types.UID]bool{"1": false, "2": true} {
		if asked.isReplacement(key, uid) != want {
			t.Errorf("UID %s: %t", uid, !want)
		}
	}
	if asked.isReplacement("/other", "2") {
		t.Error("an object that was not deleted counts as replaced")
	}
}

// TestWritesOf: the writes of an earlier object of the same name do not count.
func TestWritesOf(t *testing.T) {
	state := func(uid, value string) map[string]any {
		return map[string]any{"metadata": map[string]any{"uid": uid}, "data": value}
	}
	all := []write{{nil, state("1", "a")}, {state("1", "a"), nil}, {nil, state("2", "b")}, {state("2", "b"), state("2", "c")}}
	for uid, want := range map[types.UID][]write{"1": all[:2], "2": all[2:], "3": nil} {
		got := writesOf(all, uid)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", uid, got, want)
		}
	}
}

// TestKeepOwners: the owners of an object that waits, and their owners, are kept until it is reverted.
func TestKeepOwners(t *testing.T) {
	var extra []*unstructured.Unstructured
	for _, o := range [][2]string{{"pod", "set"}, {"set", "deployment"}, {"deployment", ""}, {"other", "unknown"}} {
		_, kv := thing("Thing", "default", o[0], o[0], o[1], 1)
		is, err := objectOf(kv)
		if err != nil {
			t.Fatal(err)
		}
		extra = append(extra, is)
	}
	for start, want := range map[types.UID]int{"pod": 3, "set": 2, "deployment": 1, "unknown": 1} {
		waiting := map[types.UID]bool{start: true}
		keepOwners(waiting, extra)
		equal(t, string(start), want, len(waiting))
	}
	none := map[types.UID]bool{}
	keepOwners(none, extra)
	equal(t, "nothing waits", 0, len(none))
}

// TestRevisionSum: only the namespaces of the scenario count, and each write changes the sum.
func TestRevisionSum(t *testing.T) {
	g, held := externalOf(t), map[string]store.KV{}
	before := g.revisionSum(held)
	add := func(namespace string, revision int64) int64 {
		key, kv := thing("Secret", namespace, "a", "1", "", revision)
		held[key] = kv
		return g.revisionSum(held)
	}
	if after := add("elsewhere", 7); after != before {
		t.Error("a write elsewhere changes the sum")
	}
	if after := add("", 8); after != before {
		t.Error("a cluster-scoped write changes the sum")
	}
	first := add("default", 9)
	if second := add("default", 10); first == before || second == first {
		t.Errorf("sums %d, %d, %d", before, first, second)
	}
}

// TestNotRestored: the error names what remains, the first ten of it.
func TestNotRestored(t *testing.T) {
	g := externalOf(t)
	equal(t, "something", "restore the cluster: a, b: context deadline exceeded", g.notRestored([]string{"a", "b"}, context.DeadlineExceeded).Error())
	equal(t, "nothing", "restore the cluster: objects still change in the namespaces of the scenario: context canceled", g.notRestored(nil, context.Canceled).Error())
	long := strings.Split(strings.Repeat("left,", 30), ",")
	if text := g.notRestored(long, context.Canceled).Error(); strings.Count(text, "left") != 10 {
		t.Errorf("%s", text)
	}
}

// TestAsNew: an object is created again without what the API server has written.
func TestAsNew(t *testing.T) {
	o := &unstructured.Unstructured{Object: decoded(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"b":"c"},"finalizers":["f"],"uid":"1",
		"resourceVersion":"7","generation":2,"creationTimestamp":"2000-01-01T00:00:00Z","deletionTimestamp":"2000-01-01T00:00:00Z",
		"deletionGracePeriodSeconds":30,"selfLink":"/x","managedFields":[{"manager":"m"}]},"spec":{"x":1}}`)}
	before := o.DeepCopy()
	equal(t, "new", decoded(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"b":"c"},"finalizers":["f"]},"spec":{"x":1}}`), asNew(o).Object)
	equal(t, "the argument", before.Object, o.Object)
}

// TestPermit: outside of its namespaces a rehearsal deletes only what it created, by UID.
func TestPermit(t *testing.T) {
	g := externalOf(t)
	g.created.add("/secrets/elsewhere/ours", "7")
	observe(g.mirror, secrets, watch.Added, "theirs", 3) // in namespace default
	g.mirror.objects["/secrets/elsewhere/theirs"] = store.KV{}
	g.mirror.objects["/nodes/n"] = store.KV{}
	for _, c := range []struct {
		verb, resource, namespace, name, sub string
		only                                 types.UID
		denied                               string
	}{
		{verb: "delete", resource: "secrets", namespace: "default", name: "theirs"},
		{verb: "deletecollection", resource: "secrets", namespace: "default"},
		{verb: "delete"}, // not a resource
		{verb: "delete", resource: "pods", namespace: "elsewhere", name: "p", sub: "eviction"},
		{verb: "delete", resource: "secrets", namespace: "elsewhere", name: "ours", only: "7"},
		{verb: "delete", resource: "secrets", namespace: "elsewhere", name: "theirs", denied: "the rehearsal did not create it, and what it owns would be deleted with it"},
		{verb: "delete", resource: "secrets", namespace: "elsewhere", name: "absent", only: noUID, denied: "the rehearsal did not create it"},
		{verb: "delete", resource: "nodes", name: "n", denied: "its pods would be deleted with it"},
		{verb: "delete", resource: "namespaces", name: "n", only: noUID, denied: "every object in it would be deleted with it"},
		{verb: "delete", resource: "persistentvolumes", name: "n", only: noUID, denied: "its data would be deleted with it"},
		{verb: "delete", resource: "customresourcedefinitions.apiextensions.k8s.io", name: "n", only: noUID, denied: "every object of its kind would be deleted with it"},
		{verb: "deletecollection", resource: "secrets", namespace: "elsewhere", denied: "only objects that it created, one at a time"},
	} {
		call := &wire.Call{Verb: c.verb, Subresource: c.sub, Object: history.Object{Resource: c.resource, Namespace: c.namespace, Name: c.name}}
		p := g.permit(call)
		what := fmt.Sprintf("%s %s %s/%s", c.verb, c.resource, c.namespace, c.name)
		equal(t, what, c.only, p.Only)
		if (p.Denied != nil) != (c.denied != "") || p.Denied != nil && (!strings.Contains(p.Denied.Error(), c.denied) || !apierrors.IsForbidden(p.Denied)) {
			t.Errorf("%s: %v, want %q", what, p.Denied, c.denied)
		}
	}
}

// TestExcludedKeys: faults and records leave out what does not belong to a run.
func TestExcludedKeys(t *testing.T) {
	g := externalOf(t)
	g.created.add("/zones/ours", "1")
	g.initial = []initialObject{{key: "/secrets/elsewhere/initial"}, {key: "/namespaces/defined", definition: true}}
	g.initialState["/nodes/n"] = store.KV{Value: []byte("{}")}
	for key, want := range map[string]string{
		"/secrets/default/a":         "",
		"/secrets/elsewhere/a":       "excluded unrecorded",
		"/secrets/elsewhere/initial": "",
		"/nodes/n":                   "excluded unrecorded",
		"/nodes/new":                 "unrecorded",
		"/zones/ours":                "",
		"/namespaces/defined":        "unrecorded",
	} {
		var got []string
		if g.excluded(key) {
			got = append(got, "excluded")
		}
		if g.unrecorded(key) {
			got = append(got, "unrecorded")
		}
		equal(t, key, want, strings.Join(got, " "))
	}
}

// TestCreated: the last object under a key is known, and each UID that was created.
func TestCreated(t *testing.T) {
	c := newCreated()
	c.add("/jobs.batch/default/a", "1")
	c.add("/jobs.batch/default/a", "2")
	c.add("/jobs.batch.example.com/default/a", "3")
	c.add("/pods/default/a", "4")
	equal(t, "the last", types.UID("2"), c.uidOf("/jobs.batch/default/a"))
	equal(t, "of one resource", map[string]types.UID{"/jobs.batch/default/a": "2"}, c.inResource(schema.GroupResource{Group: "batch", Resource: "jobs"}))
	c.forget("/jobs.batch/default/a")
	equal(t, "forgotten", types.UID(""), c.uidOf("/jobs.batch/default/a"))
	for _, uid := range []types.UID{"1", "2", "3", "4"} {
		if !c.has(uid) {
			t.Errorf("UID %s is not known", uid)
		}
	}
	if c.has("5") {
		t.Error("UID 5 is known")
	}
}

// TestDrop: what a run has written, or may have written, is reverted later: successful writes and those without an
// answer, but no bookkeeping; finalizers that it added are known.
func TestDrop(t *testing.T) {
	g := externalOf(t)
	step := func(verb, resource, name string, code int) history.Step {
		return history.Step{Kind: history.Request, Verb: verb, Code: code, Object: history.Object{Resource: resource, Namespace: "default", Name: name}}
	}
	record := &history.Run{}
	for _, s := range []history.Step{
		step("create", "pods", "created", 201), step("update", "pods", "unanswered", 0), step("patch", "pods", "rejected", 409), step("get", "pods", "read", 200),
		step("update", "leases.coordination.k8s.io", "lease", 200), {Kind: history.Frame, Object: history.Object{Resource: "pods", Namespace: "default", Name: "observed"}},
	} {
		record.Add(s)
	}
	var was, is map[string]any
	if err := json.Unmarshal([]byte(`{"metadata":{"finalizers":["theirs"]}}`), &was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"metadata":{"finalizers":["theirs","run"]}}`), &is); err != nil {
		t.Fatal(err)
	}
	g.drop(record, map[string][]write{"/pods/default/changed": {{was, is}}})
	var keys []string
	for key := range g.written {
		keys = append(keys, strings.TrimPrefix(key, "/pods/default/"))
	}
	slices.Sort(keys)
	equal(t, "written", []string{"changed", "created", "unanswered"}, keys)
	if !g.runFinalizers["run"] || g.runFinalizers["theirs"] {
		t.Errorf("finalizers of runs: %v", g.runFinalizers)
	}
}
