package scenario_test

import (
	"fmt"
	"testing"
	"time"
)

// TestOracleParameters: each parameter that is missing, unknown, of a wrong type or of a wrong value is an error that
// names it and says what to write.
func TestOracleParameters(t *testing.T) {
	const owner = "spec.invariants.%[1]s[0].with.owner"
	for _, c := range []struct {
		place, oracle, with string
		want                []string
	}{
		{"always", "AtMostPods", "{}", []string{
			owner + ": is missing: the controller of the pods: kind, namespace (default: default) and name",
			"spec.invariants.%[1]s[0].with.count: is missing: the number of pods",
		}},
		{"always", "AtMostPods", "{owner: {kind: Job}, count: 1}", []string{owner + ".name: is missing; write one such as web"}},
		{"always", "ExactlyPods", "{owner: {name: web}, count: 1}", []string{owner + ".kind: is missing; write one such as ReplicaSet"}},
		{"always", "ExactlyPods", "{owner: {kind: Job, name: a}, count: -2}", []string{"spec.invariants.%[1]s[0].with.count: -2: must not be negative"}},
		{"always", "Ready", "{owner: {kind: Job, name: a}, count: two}", []string{"spec.invariants.%[1]s[0].with.count: two: must be a whole number and is a text"}},
		{"always", "Ready", "{owner: web, count: 2}", []string{owner + ": web: must be an object and is a text"}},
		{"always", "Ready", "[]", []string{"spec.invariants.%[1]s[0].with: must be an object and is a list"}},
		{"always", "NoDuplicates", "{owner: {kind: Job, name: a}}", []string{"spec.invariants.%[1]s[0].with.label: is missing: the name of a label, such as batch.kubernetes.io/job-completion-index"}},
		{"always", "NoDuplicates", `{owner: {kind: Job, name: a}, label: ""}`, []string{"spec.invariants.%[1]s[0].with.label: must not be empty"}},
		{"always", "Exists", "{resource: pods}", []string{"spec.invariants.%[1]s[0].with.name: is missing: the name of the object"}},
		{"always", "Exists", "{resource: Pods, name: a}", []string{`spec.invariants.%[1]s[0].with.resource: Pods: is not a resource; write one such as "pods" or "jobs.batch"`}},
		{"always", "Gone", "{resource: deployment, name: a}", []string{`spec.invariants.%[1]s[0].with.resource: deployment: no such resource; write "deployments.apps"`}},
		{"always", "Gone", "{resource: nodes, namespace: default, name: a}", []string{"spec.invariants.%[1]s[0].with.namespace: default: nodes have no namespace; leave it out"}},
		{"always", "Condition", "{resource: nodes, name: a}", []string{"spec.invariants.%[1]s[0].with.type: is missing: the type of the condition, such as Complete"}},
		{"always", "Condition", "{resource: nodes, name: a, type: Ready, status: ready}", []string{"spec.invariants.%[1]s[0].with.status: ready: must be True, False or Unknown"}},
		{"always", "Field", "{resource: nodes, name: a, value: 1}", []string{
			"spec.invariants.%[1]s[0].with.path: is missing: the path of the field, such as status.succeeded, spec.containers[0].image or metadata.labels[app.kubernetes.io/name]",
		}},
		{"always", "Field", "{resource: nodes, name: a, path: spec, value: 1, want: 1}", []string{"spec.invariants.%[1]s[0].with.want: unknown field; want resource, namespace, name, path or value"}},
		{"eventually", "HotLoop", "{limit: -1}", []string{"spec.invariants.%[1]s[0].with.limit: -1: must be at least 1"}},
		{"eventually", "HotLoop", "{window: 5}", []string{`spec.invariants.%[1]s[0].with.window: 5: must be a duration such as 30s and is a number; write "5"`}},
		{"sometimes", "Happened", "{}", []string{"spec.invariants.%[1]s[0].with.kind: is missing: the kind of the step: start, crash, request, answer, frame, cut, time or fault"}},
		{"sometimes", "Happened", "{kind: crash, actor: user}", []string{"spec.invariants.%[1]s[0].with.actor: user: no client is named user; there is a"}},
		{"sometimes", "Wrote", "{verb: list}", []string{"spec.invariants.%[1]s[0].with.verb: list: must be create, update, patch, delete or deletecollection"}},
		{"sometimes", "Wrote", "{resource: job}", []string{`spec.invariants.%[1]s[0].with.resource: job: no such resource; write "jobs.batch"`}},
		{"sometimes", "Stale", "{actor: z/0}", []string{"spec.invariants.%[1]s[0].with.actor: z/0: no client is named z; there is a"}},
		{"sometimes", "NoOrphans", "{namespace: a}", []string{"spec.invariants.%[1]s[0].with.namespace: unknown field"}},
		{"always", "Stays", "{oracle: Stays, with: {cel: 'true'}}", []string{"spec.invariants.%[1]s[0].with.oracle: Stays: cannot be used in this place; use it in always"}},
		{"always", "Stays", "{cel: 'tru'}", []string{"spec.invariants.%[1]s[0].with.cel: tru: column 1: undeclared reference to 'tru' (in container '')"}},
		{"always", "Job", `{name: ""}`, []string{"spec.invariants.%[1]s[0].with.name: must not be empty"}},
		{"always", "Job", "{name: a, within: 0s}", []string{"spec.invariants.%[1]s[0].with.within: 0s: must be more than 0; leave it out for 30s"}},
		{"always", "CloneSet", "{namespace: a}", []string{"spec.invariants.%[1]s[0].with.name: is missing: the name of the object"}},
	} {
		t.Run(c.oracle+" "+c.with, func(t *testing.T) {
			_, err := parse(fmt.Sprintf("  invariants: {%s: [{oracle: %s, with: %s}]}\n", c.place, c.oracle, c.with), nil)
			var want []string
			for _, text := range c.want {
				want = append(want, fmt.Sprintf(text, c.place))
			}
			equal(t, "problems", want, problems(t, err))
		})
	}
}

// TestOracleDefaults: what an oracle takes for a parameter that is left out is in the name of the invariant.
func TestOracleDefaults(t *testing.T) {
	for _, c := range []struct{ place, oracle, with, want string }{
		{"always", "AtMostPods", "{owner: {kind: Job, name: a}, count: 0}", "at most 0 active pods of Job default/a"},
		{"always", "Exists", "{resource: pods, name: a}", "pods default/a exists"},
		{"always", "Exists", "{resource: nodes, name: a}", "nodes a exists"},
		{"always", "Exists", "{resource: things.example.com, name: a}", "things.example.com a exists"},
		{"always", "Exists", "{resource: things.example.com, namespace: b, name: a}", "things.example.com b/a exists"},
		{"always", "Condition", "{resource: pods, name: a, type: Ready}", "pods default/a has condition Ready=True"},
		{"eventually", "HotLoop", "{}", "no controller sends more than 50 equal requests in 10s while nothing changes"},
		{"eventually", "HotLoop", "{limit: 3}", "no controller sends more than 3 equal requests in 10s while nothing changes"},
		{"eventually", "HotLoop", "{window: 1m}", "no controller sends more than 50 equal requests in 1m0s while nothing changes"},
		{"sometimes", "Wrote", "", "any actor wrote"},
		{"sometimes", "Wrote", "{actor: user}", "user wrote"},
		{"sometimes", "Wrote", "{actor: kubelet, resource: pods}", "kubelet wrote pods"},
		{"sometimes", "Wrote", "{actor: scheduler}", "scheduler wrote"},
		{"sometimes", "Happened", "{kind: crash, actor: a/1}", "crash a/1 happened"},
	} {
		s := mustParse(t, fmt.Sprintf("  invariants: {%s: [{oracle: %s, with: %s}]}\n", c.place, c.oracle, c.with))
		all := s.Invariants()
		names := []string{}
		for _, i := range append(all.Always, all.Sometimes...) {
			names = append(names, i.Name)
		}
		for _, i := range all.Eventually {
			names = append(names, i.Name)
		}
		equal(t, c.oracle+" "+c.with, []string{c.want}, names)
	}
}

// TestInvariantNames: the author's name replaces that of one invariant, and precedes those of an oracle that is several.
func TestInvariantNames(t *testing.T) {
	s := mustParse(t, `  invariants:
    always:
    - {name: "  few pods ", cel: 'list("pods").size() < 3'}
    - {cel: 'list("pods").size() < 4'}
    - {name: pi, oracle: Job, with: {name: pi}}
    eventually:
    - {name: done, oracle: Gone, with: {resource: pods, name: a}, within: 5s}
    sometimes:
    - {name: " ", oracle: Wrote}
`)
	all := s.Invariants()
	if all.Always[0].Name != "few pods" || all.Always[1].Name != `list("pods").size() < 4` || all.Sometimes[0].Name != "any actor wrote" {
		t.Errorf("%q, %q, %q", all.Always[0].Name, all.Always[1].Name, all.Sometimes[0].Name)
	}
	equal(t, "first of the Job", "pi: no pod of Job default/pi is created beyond its parallelism", all.Always[2].Name)
	var ends []string
	for _, e := range all.Eventually {
		ends = append(ends, fmt.Sprintf("%s in %s", e.Name, e.Within))
	}
	equal(t, "eventually", []string{"pi: Job default/pi has finished, or waits for running pods in 30s", "done in 5s"}, ends)
}

// TestWithin: a bound that is left out is 30 s, wherever it may be written.
func TestWithin(t *testing.T) {
	s := mustParse(t, `  steps:
  - wait: {cel: "true"}
  - wait: {cel: "true", within: 90s}
  - settle: {}
  - settle: {within: 1m30s}
  invariants:
    eventually:
    - {cel: "true"}
    - {cel: "true", within: 90s}
`)
	var got []time.Duration
	for _, step := range s.Steps {
		got = append(got, step.Within)
	}
	for _, e := range s.Invariants().Eventually {
		got = append(got, e.Within)
	}
	short, long := 30*time.Second, 90*time.Second
	equal(t, "bounds", []time.Duration{short, long, short, long, short, long}, got)
}

// TestUnknownOracle: the error lists every oracle, also inside Never.
func TestUnknownOracle(t *testing.T) {
	const all = "unknown oracle; want one of AtMostPods, ExactlyPods, Ready, NoDuplicates, Exists, Gone, Condition, Field, NoOrphans, " +
		"UniqueOwnerUID, Deleted, HotLoop, Happened, Wrote, Stale, Never, Stays, Job, CloneSet"
	_, err := parse("  invariants: {always: [{oracle: Exits}], sometimes: [{oracle: Never, with: {oracle: exists}}]}\n", nil)
	equal(t, "problems", []string{
		"spec.invariants.always[0].oracle: Exits: " + all,
		"spec.invariants.sometimes[0].with.oracle: exists: " + all,
	}, problems(t, err))
}
