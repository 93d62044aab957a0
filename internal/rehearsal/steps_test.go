//go:build unix

package rehearsal

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// stepsScenario returns the scenario of copies with other steps; each is one line.
func stepsScenario(steps ...string) string {
	before, rest, _ := strings.Cut(copyScenario, "  steps:\n")
	_, invariants, _ := strings.Cut(rest, "  invariants:\n")
	return before + "  steps:\n  - " + strings.Join(steps, "\n  - ") + "\n  invariants:\n" + invariants
}

// TestEveryStep carries out each kind of step against a real API server; the record has what the user wrote, in order.
func TestEveryStep(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	const object = "{object: {apiVersion: v1, kind: ConfigMap, metadata: {name: %s, labels: {group: %s}}, data: {a: b}}}"
	a := open(t, stepsScenario(
		"create: "+fmt.Sprintf(object, "copy-a", "one"),
		"apply: "+fmt.Sprintf(object, "copy-b", "one"),
		"apply: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy-b, labels: {group: one}}, data: {a: c}}}",
		"create: "+fmt.Sprintf(object, "kept", "two"),
		"patch: {resource: configmaps, name: kept, patch: {data: {merge: x}}}",
		"patch: {resource: configmaps, name: kept, type: json, patch: [{op: add, path: /data/json, value: v}]}",
		"patch: {resource: configmaps, name: kept, type: strategic, patch: {data: {strategic: z}}}",
		"patch: {resource: configmaps, selector: group=one, patch: {data: {all: w}}}",
		`wait: {cel: 'get("configmaps", "default", "kept").data == {"a": "b", "merge": "x", "json": "v", "strategic": "z"}'}`,
		"wait: {oracle: Exists, with: {resource: secrets, name: copy-b}, within: 10s}",
		"settle: {within: 5s}",
		"delete: {resource: secrets, name: copy-a}",
		"delete: {resource: configmaps, name: absent}", // no failure
		"delete: {resource: configmaps, selector: group=two}",
		"wait: {oracle: Gone, with: {resource: configmaps, name: kept}}",
	), os.Args[0])
	run := play(t, a)
	if run.Failure != nil || run.Inconclusive != "" {
		t.Fatalf("%+v %s", run.Failure, run.Inconclusive)
	}
	var got []string
	for i := range run.Steps {
		// The answer to a delete has no revision, so Wrote does not count it.
		if s := &run.Steps[i]; s.Kind == history.Request && s.Actor == "user" && s.IsWrite() && s.Code/100 == 2 {
			got = append(got, s.Verb+" "+s.Resource+" "+s.Name)
		}
	}
	equal(t, "what the user wrote", []string{
		"create configmaps copy-a", "patch configmaps copy-b", "patch configmaps copy-b", "create configmaps kept",
		"patch configmaps kept", "patch configmaps kept", "patch configmaps kept", "patch configmaps copy-a", "patch configmaps copy-b",
		"delete secrets copy-a", "delete configmaps kept",
	}, got)
}

// TestStepErrors: what the API rejects is an error of the scenario, with its line and the step.
func TestStepErrors(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	for step, want := range map[string]string{
		"delete: {resource: webs.example.com, name: a}":                                                                 `delete webs.example.com a: the API does not serve "webs.example.com"`,
		"create: {object: {apiVersion: x.com/v1, kind: Web, metadata: {name: a}}}":                                      "create Web a: Web a: the API does not serve this kind",
		"create: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: A_b}}}":                                    `create ConfigMap A_b: ConfigMap "A_b" is invalid`,
		"patch: {resource: namespaces, name: default, type: json, patch: [{op: test, path: /metadata/name, value: x}]}": "patch namespaces default (json)",
		"apply: {object: {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}}":                     "apply Pod a: ",
	} {
		t.Run(step, func(t *testing.T) {
			a := open(t, stepsScenario("settle: {within: 1s}", step), os.Args[0])
			_, err := a.Play(t.Context(), sim.Plan{Seed: 1, Learn: true})
			var rejected *ScenarioError
			if !errors.As(err, &rejected) || !strings.HasPrefix(err.Error(), "copies.yaml:10: "+want) {
				t.Errorf("%v, want copies.yaml:10: %s", err, want)
			}
		})
	}
}
