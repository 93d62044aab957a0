package invariant_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestCELNamesObjects checks that the message of a violated expression names the objects that decided it.
func TestCELNamesObjects(t *testing.T) {
	w := viewtest.NewWorld(t, `
{resource: pods, kind: Pod, metadata: {namespace: default, name: a}, status: {phase: Running}}
---
{resource: pods, kind: Pod, metadata: {namespace: default, name: b}, status: {phase: Running}}
---
{resource: pods, kind: Pod, metadata: {namespace: other, name: c}, status: {phase: Failed}}
`)
	for expr, want := range map[string]string{
		`list("pods").filter(p, p.status.phase == "Running").size() <= 1`:                         "2 > 1: Pod default/a, Pod default/b",
		`size(list("pods", "other")) == 0`:                                                        "1 != 0: Pod other/c",
		`list("pods").size() == 4`:                                                                "3 != 4",
		`list("pods").all(p, p.status.phase == "Running")`:                                        "false of Pod other/c",
		`!list("pods").exists(p, p.metadata.namespace == "other")`:                                "true of Pod other/c",
		`list("pods").exists(p, p.metadata.namespace == "third")`:                                 "",
		`list("pods").size() == 3 && get("pods", "default", "b").status.phase == "Pending"`:       `"Running" != "Pending"`,
		`get("pods", "default", "x") != null || list("pods").all(p, p.status.phase != "Running")`: "false of Pod default/a, Pod default/b",
		`!(list("pods").size() > 2)`:                                                              "3 > 2: Pod default/a, Pod default/b, Pod other/c",
		`list("pods").map(p, p.status.phase).size() < 3`:                                          "3 >= 3",
		`list("pods").map(p, 1).sum() < 3`:                                                        "3 >= 3",
		`steps.exists(s, s.fault != "")`:                                                          "",
		`list("pods").all(p, list("pods").all(q, p.metadata.name == q.metadata.name))`:            "false of Pod default/a, Pod default/b, Pod other/c",
	} {
		if want != "" {
			want = ": " + want
		}
		err := invariant.MustCEL("a condition", expr).Check(w)
		if want = "the expression is false" + want; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", expr, err, want)
		}
	}
}
