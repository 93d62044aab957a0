package invariant_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
)

const twoJobs = `
resource: jobs.batch
kind: Job
metadata: {namespace: default, name: pi, uid: J2}
status: {succeeded: 1, conditions: [{type: Complete, status: "True"}]}
---
resource: pods
metadata:
  {namespace: default, name: a, labels: {slot: "0"}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: pi, uid: J2, controller: true}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
resource: pods
metadata:
  {namespace: default, name: b, labels: {slot: "0"}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: pi, uid: J2, controller: true}]}
status: {phase: Pending}
---
resource: pods
metadata:
  {namespace: default, name: done, labels: {slot: "0"}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: pi, uid: J2, controller: true}]}
status: {phase: Succeeded}
---
resource: pods
metadata:
  namespace: default
  name: going
  deletionTimestamp: "2000-01-01T00:00:00Z"
  finalizers: [x/y]
  labels: {slot: "0"}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: pi, uid: J2, controller: true}]
status: {phase: Running}
---
resource: pods
metadata: {namespace: default, name: earlier, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: pi, uid: J1, controller: true}]}
status: {phase: Running}
---
resource: pods
metadata: {namespace: other, name: elsewhere, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: pi, uid: J3, controller: true}]}
status: {phase: Running}
---
resource: pods
metadata: {namespace: default, name: free}
status: {phase: Running}
`

func TestPods(t *testing.T) {
	w := viewtest.NewWorld(t, twoJobs)
	pi := invariant.Owner{Kind: "Job", Namespace: "default", Name: "pi"}
	for _, c := range []struct {
		i    invariant.Invariant
		name string
		want string
	}{
		{invariant.AtMostPods(pi, 2), "at most 2 active pods of Job default/pi", ""},
		{invariant.AtMostPods(pi, 1), "at most 1 active pod of Job default/pi", "there are 2: default/a, default/b"},
		{invariant.ExactlyPods(pi, 2), "exactly 2 active pods of Job default/pi", ""},
		{invariant.ExactlyPods(pi, 3), "exactly 3 active pods of Job default/pi", "there are 2"},
		{invariant.Ready(pi, 1), "1 ready pod of Job default/pi", ""},
		{invariant.Ready(pi, 2), "2 ready pods of Job default/pi", "there is 1: default/a (2 active)"},
		{invariant.NoDuplicates(pi, "slot"), "no two active pods of Job default/pi with the same slot", `default/a and default/b both have "0"`},
		{invariant.NoDuplicates(pi, "other"), "no two active pods of Job default/pi with the same other", ""},
		{invariant.Exists("jobs.batch", "default", "pi"), "jobs.batch default/pi exists", ""},
		{invariant.Exists("jobs.batch", "default", "e"), "jobs.batch default/e exists", "does not exist"},
		{invariant.Gone("pods", "default", "missing"), "pods default/missing is gone", ""},
		{invariant.Gone("pods", "default", "a"), "pods default/a is gone", "its deletion was not requested"},
		{invariant.Gone("pods", "default", "going"), "pods default/going is gone", "waits for [x/y]"},
		{invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"), "jobs.batch default/pi has condition Complete=True", ""},
		{invariant.Condition("jobs.batch", "default", "pi", "Complete", "False"), "jobs.batch default/pi has condition Complete=False", "Complete is True"},
		{invariant.Condition("jobs.batch", "default", "pi", "Failed", "True"), "jobs.batch default/pi has condition Failed=True", "no condition Failed"},
		{invariant.Condition("jobs.batch", "default", "e", "Failed", "True"), "jobs.batch default/e has condition Failed=True", "does not exist"},
		{invariant.Never(invariant.Exists("pods", "default", "a")), "never pods default/a exists", "it is true"},
		{invariant.Never(invariant.AtMostPods(pi, 1)), "never at most 1 active pod of Job default/pi", ""},
		{
			invariant.All(invariant.AtMostPods(pi, 1), invariant.Exists("pods", "default", "a")),
			"at most 1 active pod of Job default/pi, and pods default/a exists", "at most 1 active pod of Job default/pi: there are 2",
		},
	} {
		if c.i.Name != c.name {
			t.Errorf("name %q, want %q", c.i.Name, c.name)
		}
		viewtest.Check(t, c.i, w, c.want)
	}
}

func TestOwnerOf(t *testing.T) {
	typed := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi"}}
	if got := invariant.OwnerOf(typed).String(); got != "Job default/pi" {
		t.Error(got)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "CloneSet", "metadata": map[string]any{"name": "web"}}}
	if got := invariant.OwnerOf(u).String(); got != "CloneSet web" {
		t.Error(got)
	}
}

func TestField(t *testing.T) {
	w := viewtest.NewWorld(t, `
resource: pods
metadata: {namespace: default, name: a, labels: {app.kubernetes.io/name: web, "7": seven}}
spec: {containers: [{image: nginx}], priority: 3}
status: {}
`)
	for _, c := range []struct {
		path string
		want any
		says string
	}{
		{"spec.priority", 3, ""},
		{"spec.priority", int32(4), "it is 3"},
		{"spec.containers[0].image", "nginx", ""},
		{"spec.containers[1].image", "nginx", "it is nothing"},
		{"spec.containers.image", "nginx", "it is nothing"},
		{"spec.priority.of", "nginx", "it is nothing"},
		{"metadata.labels[app.kubernetes.io/name]", "web", ""},
		{"metadata.labels[7]", "seven", ""},
		{"status.phase", nil, ""},
		{"metadata.name", nil, `it is "a"`},
		{"metadata.labels", map[string]string{"app.kubernetes.io/name": "web", "7": "seven"}, ""},
	} {
		viewtest.Check(t, invariant.Field("pods", "default", "a", c.path, c.want), w, c.says)
	}
	viewtest.Check(t, invariant.Field("pods", "default", "b", "status", nil), w, "does not exist")
	for _, path := range []string{"", "a[", "a[]", ".a", "a..b"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("path %q was accepted", path)
				}
			}()
			invariant.Field("pods", "default", "a", path, 1)
		}()
	}
}

// FuzzField checks that only parsing a path can panic, and that looking it up cannot.
func FuzzField(f *testing.F) {
	for _, path := range []string{"a.b", "a[0]", "a[x/y.z].c", "[", "a[99999999999999999999]", "a[-1]"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		i, rejected := field(path)
		if rejected {
			return // the path is rejected when the test is written, not during a run
		}
		w := viewtest.NewWorld(t, twoJobs)
		_ = i.Check(w)
	})
}

func field(path string) (i invariant.Invariant, rejected bool) {
	defer func() { rejected = recover() != nil }()
	return invariant.Field("pods", "default", "a", path, 1), false
}

func TestStays(t *testing.T) {
	w := viewtest.NewWorld(t, "resource: pods\nmetadata: {namespace: default, name: web}\n")
	i := invariant.Stays(invariant.Field("pods", "default", "web", "status.phase", "Running"))
	for n, step := range []struct {
		phase string
		holds bool
	}{{"Pending", true}, {"Running", true}, {"Running", true}, {"Pending", false}, {"Running", true}} {
		w.Clock = time.Duration(n) * time.Second
		w.Objects["pods"][0].Object["status"] = map[string]any{"phase": step.phase}
		err := i.Check(w)
		if (err == nil) != step.holds {
			t.Errorf("step %d, %s: %v", n, step.phase, err)
		}
		if err != nil && !strings.Contains(err.Error(), "it was true at 1s") {
			t.Errorf("the message does not contain the time when it was true: %v", err)
		}
	}
}

func TestOwned(t *testing.T) {
	w := viewtest.NewWorld(t, twoJobs)
	viewtest.Check(t, invariant.Deleted(), w, "pods default/going has been terminating for 0s and waits for [x/y]")
	w.Clock = invariant.Grace
	viewtest.Check(t, invariant.NoOrphans(), w, "")
	viewtest.Check(t, invariant.UniqueOwnerUID(), w, "")
	w.Clock += time.Second
	viewtest.Check(t, invariant.NoOrphans(), w, "pods default/earlier is controlled by Job pi (J1), which was deleted 1m1s ago")
	viewtest.Check(t, invariant.UniqueOwnerUID(), w, "pods default/earlier is controlled by Job pi (J1), but the existing one is J2")
	if got := viewtest.NewWorld(t, ""); got != nil {
		viewtest.Check(t, invariant.All(invariant.Deleted(), invariant.NoOrphans(), invariant.UniqueOwnerUID()), got, "")
	}
}

// TestOrphanAfterOwnerDeletion checks that the grace period starts when the owner is deleted.
func TestOrphanAfterOwnerDeletion(t *testing.T) {
	w := viewtest.NewWorld(t, `
resource: pods
metadata: {namespace: default, name: a, ownerReferences: [{apiVersion: example.com/v1, kind: Matrix, name: m, uid: M, controller: true}]}
`)
	const end = 10 * time.Minute
	w.Record.Add(deletion("user", "matrices.example.com", "m", "M", end))
	w.Clock = end + 30*time.Second
	viewtest.Check(t, invariant.NoOrphans(), w, "")
	w.Clock = end + 2*time.Minute
	viewtest.Check(t, invariant.NoOrphans(), w, "was deleted 2m0s ago")
}
