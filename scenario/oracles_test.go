package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/scenario"
)

// examples have parameters for every oracle.
var examples = map[string]string{
	"AtMostPods":     "{owner: {kind: ReplicaSet, name: web}, count: 0}",
	"ExactlyPods":    "{owner: {kind: ReplicaSet, namespace: default, name: web}, count: 3}",
	"Ready":          "{owner: {kind: ReplicaSet, name: web}, count: 3}",
	"NoDuplicates":   "{owner: {kind: Job, name: pi}, label: batch.kubernetes.io/job-completion-index}",
	"Exists":         "{resource: nodes, name: node-0}",
	"Gone":           "{resource: jobs.batch, namespace: other, name: pi}",
	"Condition":      "{resource: jobs.batch, name: pi, type: Complete}",
	"Field":          "{resource: jobs.batch, name: pi, path: spec.suspend, value: null}",
	"NoOrphans":      "",
	"UniqueOwnerUID": "{}",
	"Deleted":        "",
	"HotLoop":        "{limit: 20, window: 5s}",
	"Happened":       "{kind: crash, actor: a, resource: pods}",
	"Wrote":          "{actor: user, verb: delete, resource: pods}",
	"Stale":          "{actor: a/0}",
	"Never":          `{cel: "false"}`,
	"Stays":          "{oracle: Field, with: {resource: pods, name: web, path: status.phase, value: Running}}",
	"Job":            "{name: pi}",
	"CloneSet":       "{namespace: other, name: web, within: 1m}",
}

// TestOracles binds every oracle in every place that it is for, and is rejected in others.
func TestOracles(t *testing.T) {
	var names strings.Builder
	for _, o := range scenario.Oracles() {
		if o.Sentence == "" || len(o.Places) == 0 {
			t.Errorf("%s is not documented", o.Name)
		}
		for _, p := range o.Params {
			if p.Name == "" || p.Says == "" {
				t.Errorf("%s: parameter %q is not documented", o.Name, p.Name)
			}
		}
		with, ok := examples[o.Name]
		if !ok {
			t.Errorf("%s has no example here", o.Name)
		}
		for _, place := range []string{"always", "eventually", "sometimes", "wait", "Never"} {
			p := fmt.Sprintf("{oracle: %s, with: %s}", o.Name, with)
			text := map[string]string{
				"wait":  "  steps: [{wait: " + p + "}]\n",
				"Never": "  invariants: {eventually: [{oracle: Never, with: " + p + "}]}\n",
			}[place]
			if text == "" {
				text = "  invariants: {" + place + ": [" + p + "]}\n"
			}
			s, err := parse(text, nil)
			if is := strings.Contains(strings.Join(o.Places, " "), place); is != (err == nil) {
				t.Errorf("%s in %s: %v", o.Name, place, err)
			}
			if err != nil {
				continue
			}
			all := s.Invariants()
			for _, i := range all.Always {
				fmt.Fprintf(&names, "%s, always: %s\n", o.Name, i.Name)
			}
			for _, i := range all.Eventually {
				fmt.Fprintf(&names, "%s, within %s: %s\n", o.Name, i.Within, i.Name)
			}
			for _, step := range s.Steps {
				fmt.Fprintf(&names, "%s\n", step)
			}
		}
	}
	golden(t, "testdata/oracles.txt", names.String())
}
