package scenario_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// fleet is the state of an API with a ReplicaSet of two active pods, of which one is ready, and the pods that do not
// count: finished, terminating, of an earlier owner of the name, and of a ReplicaSet in another namespace.
const fleet = `
resource: replicasets.apps
kind: ReplicaSet
metadata: {namespace: default, name: web, uid: R2}
spec: {replicas: 2, template: {spec: {containers: [{name: c, image: "web:1"}]}}}
status: {readyReplicas: 1, conditions: [{type: ReplicaFailure, status: "False"}, {type: Scaled, status: "True"}]}
---
resource: pods
metadata:
  {namespace: default, name: a, uid: a, labels: {slot: "0"}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: R2, controller: true}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
resource: pods
metadata:
  {namespace: default, name: b, uid: b, labels: {slot: "0"}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: R2, controller: true}]}
status: {phase: Pending}
---
resource: pods
metadata:
  {namespace: default, name: done, labels: {slot: "0"}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: R2, controller: true}]}
status: {phase: Failed}
---
resource: pods
metadata:
  namespace: default
  name: going
  deletionTimestamp: "2000-01-01T00:00:00Z"
  finalizers: [example.com/drain]
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: R2, controller: true}]
status: {phase: Running}
---
resource: pods
metadata: {namespace: other, name: c, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: R9, controller: true}]}
status: {phase: Running}
---
resource: replicasets.apps
kind: ReplicaSet
metadata: {namespace: other, name: web, uid: R9}
---
resource: nodes
metadata: {name: node-0}
`

// orphaned has a pod of an owner that does not exist, and confused one of an earlier owner of the name.
const (
	orphaned = `
resource: pods
metadata: {namespace: default, name: a, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: pi, uid: J1, controller: true}]}
---
resource: jobs.batch
metadata: {namespace: default, name: e, uid: J5}
`
	confused = `
resource: pods
metadata: {namespace: default, name: a, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: pi, uid: J1, controller: true}]}
---
resource: jobs.batch
kind: Job
metadata: {namespace: default, name: pi, uid: J2}
`
	tidy = `
resource: configmaps
metadata: {namespace: default, name: a}
`
)

// objects returns a view of some objects, two minutes after the run has started.
func objects(documents string) func(t *testing.T) invariant.View {
	return func(t *testing.T) invariant.View {
		w := viewtest.NewWorld(t, documents)
		w.Clock = 2 * time.Minute
		return w
	}
}

// record returns a view of a run that a test writes step by step.
func record(play func(s *viewtest.Script)) func(t *testing.T) invariant.View {
	return func(*testing.T) invariant.View {
		s := viewtest.NewScript()
		play(s)
		return s
	}
}

// gets adds requests of the client c for one object, one every 100 ms.
func gets(s *viewtest.Script, n int, name string) {
	for range n {
		s.Clock += 100 * time.Millisecond
		s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "get", Code: 200, Object: history.Object{Resource: "pods", Namespace: "default", Name: name}})
	}
}

// lag has the client c write a pod after the user has changed a Job of which c has no event yet.
func lag(s *viewtest.Script) {
	seen := s.Frame(1, s.Write("user", "pods", "a", true, 0))
	s.Write("user", "jobs.batch", "j", true, 0)
	s.Write("c", "pods", "b", false, s.Add(history.Step{Kind: history.Time, At: time.Second}, seen))
}

// verdicts have, for each oracle, states and runs that satisfy and that violate it: want is a part of the reason, and
// empty if the invariant holds.
var verdicts = []struct {
	oracle, with string
	view         func(t *testing.T) invariant.View
	want         string
}{
	{"AtMostPods", "{owner: {kind: ReplicaSet, name: web}, count: 2}", objects(fleet), ""},
	{"AtMostPods", "{owner: {kind: ReplicaSet, name: web}, count: 1}", objects(fleet), "there are 2: default/a, default/b"},
	{"AtMostPods", "{owner: {kind: ReplicaSet, namespace: other, name: web}, count: 0}", objects(fleet), "there is 1: other/c"},
	{"ExactlyPods", "{owner: {kind: ReplicaSet, name: web}, count: 2}", objects(fleet), ""},
	{"ExactlyPods", "{owner: {kind: ReplicaSet, name: web}, count: 3}", objects(fleet), "there are 2"},
	{"ExactlyPods", "{owner: {kind: ReplicaSet, name: web}, count: 1}", objects(fleet), "there are 2"},
	{"ExactlyPods", "{owner: {kind: ReplicaSet, name: absent}, count: 0}", objects(fleet), ""},
	{"Ready", "{owner: {kind: ReplicaSet, name: web}, count: 1}", objects(fleet), ""},
	{"Ready", "{owner: {kind: ReplicaSet, name: web}, count: 2}", objects(fleet), "there is 1: default/a (2 active)"},
	{"NoDuplicates", "{owner: {kind: ReplicaSet, name: web}, label: other}", objects(fleet), ""},
	{"NoDuplicates", "{owner: {kind: ReplicaSet, name: web}, label: slot}", objects(fleet), `default/a and default/b both have "0"`},
	{"Exists", "{resource: pods, name: a}", objects(fleet), ""},
	{"Exists", "{resource: pods, namespace: other, name: a}", objects(fleet), "does not exist"},
	{"Exists", "{resource: nodes, name: node-0}", objects(fleet), ""},
	{"Exists", "{resource: nodes, name: node-1}", objects(fleet), "does not exist"},
	{"Gone", "{resource: pods, name: z}", objects(fleet), ""},
	{"Gone", "{resource: pods, name: a}", objects(fleet), "its deletion was not requested"},
	{"Gone", "{resource: pods, name: going}", objects(fleet), "waits for [example.com/drain]"},
	{"Condition", "{resource: replicasets.apps, name: web, type: Scaled}", objects(fleet), ""},
	{"Condition", "{resource: replicasets.apps, name: web, type: ReplicaFailure}", objects(fleet), "ReplicaFailure is False"},
	{"Condition", `{resource: replicasets.apps, name: web, type: ReplicaFailure, status: "False"}`, objects(fleet), ""},
	{"Condition", "{resource: replicasets.apps, name: web, type: Other}", objects(fleet), "no condition Other"},
	{"Condition", "{resource: replicasets.apps, name: z, type: Other}", objects(fleet), "does not exist"},
	{"Field", "{resource: replicasets.apps, name: web, path: spec.replicas, value: 2}", objects(fleet), ""},
	{"Field", "{resource: replicasets.apps, name: web, path: spec.replicas, value: 3}", objects(fleet), "2"},
	{"Field", `{resource: replicasets.apps, name: web, path: spec.replicas, value: "2"}`, objects(fleet), "2"},
	{"Field", "{resource: replicasets.apps, name: web, path: spec.paused, value: null}", objects(fleet), ""},
	{"Field", "{resource: replicasets.apps, name: web, path: spec.replicas, value: null}", objects(fleet), "2"},
	{"Field", `{resource: replicasets.apps, name: web, path: "spec.template.spec.containers[0].image", value: "web:1"}`, objects(fleet), ""},
	{"Field", `{resource: pods, name: a, path: "metadata.labels[slot]", value: "0"}`, objects(fleet), ""},
	{"Field", "{resource: replicasets.apps, name: web, path: spec.template.spec, value: {containers: [{name: c, image: \"web:1\"}]}}", objects(fleet), ""},
	{"NoOrphans", "", objects(fleet), ""},
	{"NoOrphans", "{}", objects(orphaned), "pods default/a is controlled by Job pi (J1), which was deleted"},
	{"UniqueOwnerUID", "", objects(fleet), ""},
	{"UniqueOwnerUID", "", objects(confused), "pods default/a is controlled by Job pi (J1), but the existing one is J2"},
	{"Deleted", "", objects(tidy), ""},
	{"Deleted", "", objects(fleet), "pods default/going has been terminating"},
	{"HotLoop", "", record(func(s *viewtest.Script) { gets(s, 50, "a") }), ""},
	{"HotLoop", "", record(func(s *viewtest.Script) { gets(s, 51, "a") }), `c sent 51 requests "get pods default/a" within 5s`},
	{"HotLoop", "{limit: 5}", record(func(s *viewtest.Script) { gets(s, 6, "a") }), "c sent 6 requests"},
	{"HotLoop", "{limit: 5}", record(func(s *viewtest.Script) { gets(s, 4, "a"); gets(s, 4, "b") }), ""},
	{"HotLoop", "{limit: 5}", record(func(s *viewtest.Script) { gets(s, 4, "a"); s.Write("user", "pods", "b", true, 0); gets(s, 4, "a") }), ""},
	{"HotLoop", "{limit: 5, window: 300ms}", record(func(s *viewtest.Script) { gets(s, 60, "a") }), ""},
	{"Happened", "{kind: start}", record(func(*viewtest.Script) {}), ""},
	{"Happened", "{kind: crash}", record(func(*viewtest.Script) {}), "no such step"},
	{"Happened", "{kind: crash, actor: c}", record(func(s *viewtest.Script) { s.Add(history.Step{Kind: history.Crash, Actor: "c/1"}) }), ""},
	{"Happened", "{kind: crash, actor: c}", record(func(s *viewtest.Script) { s.Add(history.Step{Kind: history.Crash, Actor: "d"}) }), "no such step"},
	{"Happened", "{kind: frame, resource: pods}", record(lag), ""},
	{"Happened", "{kind: frame, resource: nodes}", record(lag), "no such step"},
	{"Wrote", "", record(lag), ""},
	{"Wrote", "", record(func(*viewtest.Script) {}), "no such write"},
	{"Wrote", "{actor: c, verb: patch, resource: pods}", record(lag), ""},
	{"Wrote", "{actor: c, verb: patch, resource: jobs.batch}", record(lag), "no such write"},
	{"Wrote", "{actor: c, verb: delete}", record(lag), "no such write"},
	{"Wrote", "{actor: kubelet}", record(lag), "no such write"},
	{"Stale", "{actor: c}", record(lag), ""},
	{"Stale", "", record(lag), ""},
	{"Stale", "{actor: d}", record(lag), "cache"},
	{"Stale", "{actor: c}", record(func(s *viewtest.Script) {
		s.Write("c", "pods", "b", false, s.Frame(1, s.Write("user", "pods", "a", true, 0)))
	}), "cache"},
	{"Never", "{oracle: Exists, with: {resource: pods, name: z}}", objects(fleet), ""},
	{"Never", "{oracle: Exists, with: {resource: pods, name: a}}", objects(fleet), "it is true"},
	{"Never", `{cel: 'list("pods").size() > 4'}`, objects(fleet), "it is true"},
	{"Never", `{cel: 'list("pods").size() > 5'}`, objects(fleet), ""},
	{"Never", "{oracle: Wrote, with: {actor: kubelet}}", record(lag), ""},
}

// inOneOf returns the one invariant that an oracle becomes, in the first of its places that takes it.
func inOneOf(t *testing.T, o scenario.Oracle, with string) invariant.Invariant {
	t.Helper()
	const clients = "  clients: [{name: c}, {name: d, command: [d]}]\n"
	place := o.Places[0]
	if place == "wait" || place == "Never" {
		t.Fatalf("%s is not for invariants", o.Name)
	}
	s := mustParse(t, clients+fmt.Sprintf("  invariants: {%s: [{oracle: %s, with: %s}]}\n", place, o.Name, with))
	all := s.Invariants()
	list := append(all.Always, all.Sometimes...)
	for _, e := range all.Eventually {
		list = append(list, e.Invariant)
	}
	if len(list) != 1 {
		t.Fatalf("%s %s: %d invariants", o.Name, with, len(list))
	}
	return list[0]
}

// TestOracleVerdicts checks states and runs, good and bad ones, with oracles as a scenario writes them: the parameters
// reach the invariant, and the reason says what was found. Each oracle has a row that passes and one that fails; those
// that follow a run have them in follow_test.go.
func TestOracleVerdicts(t *testing.T) {
	passes, fails := map[string]bool{"Stays": true, "Job": true, "CloneSet": true}, map[string]bool{"Stays": true, "Job": true, "CloneSet": true}
	known := map[string]scenario.Oracle{}
	for _, o := range scenario.Oracles() {
		known[o.Name] = o
	}
	for _, c := range verdicts {
		t.Run(strings.TrimSpace(c.oracle+" "+c.with), func(t *testing.T) {
			viewtest.Check(t, inOneOf(t, known[c.oracle], c.with), c.view(t), c.want)
		})
		passes[c.oracle] = passes[c.oracle] || c.want == ""
		fails[c.oracle] = fails[c.oracle] || c.want != ""
	}
	for name := range known {
		if !passes[name] || !fails[name] {
			t.Errorf("oracle %s: a passing row: %t, a failing row: %t; add the missing one to verdicts", name, passes[name], fails[name])
		}
	}
}
