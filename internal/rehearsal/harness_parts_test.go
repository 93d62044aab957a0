//go:build unix

package rehearsal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// kinds returns a mapper that knows pods, nodes and webs.example.com.
func kinds() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}, {Group: "example.com", Version: "v2"}})
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Node"}, meta.RESTScopeRoot)
	m.Add(schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Web"}, meta.RESTScopeNamespace)
	return m
}

// TestServed: a resource is found by the name that kubectl has for it, with its version and its scope.
func TestServed(t *testing.T) {
	for resource, want := range map[string]string{
		"pods":             "/v1, Resource=pods true",
		"nodes":            "/v1, Resource=nodes false",
		"webs.example.com": "example.com/v2, Resource=webs true",
		"jobs.batch":       `the API does not serve "jobs.batch"`,
		"webs.other.com":   `the API does not serve "webs.other.com"`,
	} {
		gvr, namespaced, err := served(kinds(), resource)
		got := fmt.Sprintf("%s %t", gvr.String(), namespaced)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", resource, got, want)
		}
	}
	_, err := resourceFor(nil, kinds(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "a"}}})
	if err == nil || !strings.HasPrefix(err.Error(), "Job a: the API does not serve this kind: ") || !isNotServed(err) {
		t.Errorf("%v", err)
	}
	if isNotServed(errors.New("connection refused")) || !isNotServed(errors.New("the server could not find the requested resource")) {
		t.Error("isNotServed mistakes another error")
	}
}

// TestIsDefined: an initial definition is complete once the API serves its kind.
func TestIsDefined(t *testing.T) {
	definition := func(group, kind string) map[string]any {
		return map[string]any{"kind": "CustomResourceDefinition", "spec": map[string]any{"group": group, "names": map[string]any{"kind": kind}}}
	}
	if err := isDefined(kinds(), map[string]any{"kind": "Pod"}); err != nil {
		t.Error(err)
	}
	if err := isDefined(kinds(), definition("example.com", "Web")); err != nil {
		t.Error(err)
	}
	if err := isDefined(kinds(), definition("example.com", "Zone")); err == nil || !strings.HasPrefix(err.Error(), "CustomResourceDefinition of Zone: the API does not serve the kind: ") {
		t.Errorf("%v", err)
	}
}

// TestWatchable: a cluster is followed by all resources that can be listed and watched, except bookkeeping.
func TestWatchable(t *testing.T) {
	verbs := metav1.Verbs{"get", "list", "watch"}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Verbs: verbs}, {Name: "pods/status", Verbs: verbs}, {Name: "bindings", Verbs: metav1.Verbs{"create"}},
			{Name: "componentstatuses", Verbs: metav1.Verbs{"list"}}, {Name: "events", Verbs: verbs},
		}},
		{GroupVersion: "batch/v1", APIResources: []metav1.APIResource{{Name: "jobs", Verbs: verbs}}},
		{GroupVersion: "coordination.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "leases", Verbs: verbs}}},
		{GroupVersion: "networking.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "ipaddresses", Verbs: verbs}, {Name: "ingresses", Verbs: verbs}}},
		{GroupVersion: "not/a/version", APIResources: []metav1.APIResource{{Name: "x", Verbs: verbs}}},
	}
	var got []string
	for _, gvr := range watchable(lists) {
		got = append(got, gvr.GroupResource().String()+" "+gvr.Version)
	}
	equal(t, "watchable", []string{"pods v1", "jobs.batch v1", "ingresses.networking.k8s.io v1"}, got)
}

// TestNamespaceDefaults: what a control plane creates in every namespace does not make it non-empty.
func TestNamespaceDefaults(t *testing.T) {
	for object, want := range map[string]bool{
		"ServiceAccount default default": true, "ServiceAccount default builder": true, "ServiceAccount default mine": false,
		"ConfigMap default kube-root-ca.crt": true, "ConfigMap default istio-ca-root-cert": true, "ConfigMap default mine": false,
		"RoleBinding default system:deployers": true, "RoleBinding default mine": false, "Secret default mine": false,
		"Service default kubernetes": true, "Service other kubernetes": false, "EndpointSlice default kubernetes": true, "Pod default default": false,
	} {
		f := strings.Fields(object)
		_, kv := thing(f[0], f[1], f[2], "1", "", 1)
		o, err := objectOf(kv)
		if err != nil {
			t.Fatal(err)
		}
		if isNamespaceDefault(o) != want {
			t.Errorf("%s: %t", object, !want)
		}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret"}}
	o.SetAnnotations(map[string]string{"kubernetes.io/service-account.name": "default"})
	if !isNamespaceDefault(o) {
		t.Error("the token of a ServiceAccount counts as an object of others")
	}
}

// TestDescribeTerminating: the reason for a wait names the finalizers.
func TestDescribeTerminating(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "Pod"}}
	o.SetName("a")
	equal(t, "running", "Pod a", describe(o))
	now := metav1.Now()
	o.SetDeletionTimestamp(&now)
	o.SetFinalizers([]string{"x/y"})
	equal(t, "terminating", "Pod a, which is being deleted and waits for its finalizers [x/y]", describe(o))
}

// TestStoreSource: a follower receives each write to the store once, after what was stored when it began.
func TestStoreSource(t *testing.T) {
	worlds := store.New(store.Options{})
	world := worlds.World("run")
	put := func(name string, before int64) int64 {
		revision, ok := world.RawPut("/pods/default/"+name, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`"}}`), before)
		if !ok {
			t.Fatalf("%s is not written", name)
		}
		return revision
	}
	first := put("before", 0)
	f, err := newFollower(storeSource{worlds, world}, verdict.ObjectsOptions{Decodings: verdict.NewDecodings(apiserver.DecodeStored), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	follow := func() string {
		all, err := f.follow()
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, c := range all {
			words = append(words, fmt.Sprintf("%s %d<%d", strings.TrimPrefix(c.Key, "/pods/default/"), c.Before, c.Revision))
		}
		return strings.Join(words, ", ")
	}
	equal(t, "nothing yet", "", follow())
	second := put("after", 0)
	third := put("before", first)
	equal(t, "two writes", fmt.Sprintf("after 0<%d, before %d<%d", second, first, third), follow())
	equal(t, "once", "", follow())
}

// TestFirstFailure: the first violation is reported: of Always at its step, else of the end, at the last step that was
// not later.
func TestFirstFailure(t *testing.T) {
	record := &history.Run{}
	for n := range 4 {
		record.Add(history.Step{Kind: history.Time, At: time.Duration(n) * time.Second})
	}
	always := &history.Failure{Oracle: "always", Step: 2}
	for name, c := range map[string]struct {
		x     *evaluation
		atEnd *history.Failure
		want  string
	}{
		"none":               {&evaluation{record: &history.Run{}}, nil, "none"},
		"always":             {&evaluation{record: record, failure: always}, &history.Failure{Oracle: "end"}, "always at step 2"},
		"at the end":         {&evaluation{record: record}, &history.Failure{Oracle: "end", At: time.Minute}, "end at step 3"},
		"before the last":    {&evaluation{record: record}, &history.Failure{Oracle: "end", At: 1500 * time.Millisecond}, "end at step 1"},
		"before every step":  {&evaluation{record: record}, &history.Failure{Oracle: "end", At: -time.Second}, "end at step 0"},
		"a run without step": {&evaluation{record: &history.Run{}}, &history.Failure{Oracle: "end"}, "end at step 0"},
	} {
		got := "none"
		if f := firstFailure(verdict.Policy{}, c.x, c.atEnd); f != nil {
			got = fmt.Sprintf("%s at step %d", f.Oracle, f.Step)
		}
		equal(t, name, c.want, got)
	}
}

// TestAttributeUnanswered: a write without an answer may have taken effect: it gets the first later change of its
// object that no other step wrote.
func TestAttributeUnanswered(t *testing.T) {
	_, all := changes(t, "a", "b", "a") // revisions 2, 3 and 4
	record := func(name string, truth int64, code int) *history.Run {
		r := &history.Run{}
		r.Add(history.Step{Kind: history.Request, Verb: "patch", Object: history.Object{Resource: "pods", Namespace: "default", Name: name}, Truth: truth, Code: code})
		return r
	}
	for name, c := range map[string]struct {
		record *history.Run
		steps  []int
		want   []int
	}{
		"the first change":           {record("a", 1, 0), []int{-1, -1, -1}, []int{0, -1, -1}},
		"one after the request":      {record("a", 2, 0), []int{-1, -1, -1}, []int{-1, -1, 0}},
		"one that no other step has": {record("a", 1, 0), []int{7, -1, -1}, []int{7, -1, 0}},
		"of the same object":         {record("c", 1, 0), []int{-1, -1, -1}, []int{-1, -1, -1}},
		"an answered write":          {record("a", 1, 200), []int{-1, -1, -1}, []int{-1, -1, -1}},
	} {
		attributeUnanswered(c.record, all, c.steps)
		equal(t, name, c.want, c.steps)
	}
}

// TestReleased: what a fault delays is released after its time, after its writes, or when no actor writes any more; a
// run that never becomes quiet does not delay it for ever.
func TestReleased(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault.Fault
		every time.Duration // between two writes; 0: no writes
		want  time.Duration
	}{
		"for a time":                  {fault.Fault{For: 2 * time.Second}, 0, 2 * time.Second},
		"for a time, with writes":     {fault.Fault{For: 2 * time.Second}, 100 * time.Millisecond, 2 * time.Second},
		"for three writes":            {fault.Fault{Writes: 3}, 100 * time.Millisecond, 300 * time.Millisecond},
		"for writes that do not come": {fault.Fault{Writes: 3}, 0, proxy.Quiet + pollInterval},
		"until it is quiet":           {fault.Fault{}, 0, proxy.Quiet + pollInterval},
		"never quiet":                 {fault.Fault{}, 100 * time.Millisecond, proxy.Longest + pollInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newMonitor(&run{started: time.Now()}, nil)
				done := j.released(c.fault)
				for tick := pollInterval; tick < time.Minute; tick += pollInterval {
					if c.every > 0 && tick%c.every == 0 {
						j.writes, j.written.Last = j.writes+1, tick
					}
					j.releaseDue(tick)
					select {
					case <-done:
						if tick != c.want || len(j.delayed) != 0 {
							t.Errorf("released after %s, want %s; %d remain", tick, c.want, len(j.delayed))
						}
						return
					default:
					}
				}
				t.Error("not released within a minute")
			})
		})
	}
}

// TestVerdictOnce: the first verdict of a run stays.
func TestVerdictOnce(t *testing.T) {
	j := newMonitor(&run{started: time.Now(), ctx: t.Context()}, nil)
	j.fail("first", "a")
	j.fail("second", "b")
	if j.failure.Oracle != "first" || j.failure.Message != "a" {
		t.Errorf("%+v", j.failure)
	}
	select {
	case <-j.decided:
	default:
		t.Error("the run has no verdict")
	}
	if _, err := j.await(time.Minute, func() bool { return false }); !errors.Is(err, errRunOver) {
		t.Errorf("a wait in a run that is over gives %v", err)
	}
}
