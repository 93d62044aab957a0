package scenario_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// steps reads a scenario of some steps, each written on one line.
func steps(t testing.TB, written ...string) []scenario.Step {
	t.Helper()
	return mustParse(t, "  steps:\n  - "+strings.Join(written, "\n  - ")+"\n").Steps
}

// TestStepStrings: a step in one line says what it does, to what, and what differs from the default.
func TestStepStrings(t *testing.T) {
	const pod = "{object: {apiVersion: v1, kind: Pod, metadata: {name: a}}}"
	for written, want := range map[string]string{
		"apply: " + pod:  "apply Pod a",
		"create: " + pod: "create Pod a",
		"create: {object: {apiVersion: v1, kind: Pod, metadata: {generateName: a-, namespace: b}}}": "create Pod b/a-…",
		"delete: {resource: pods, name: a}":                                            "delete pods default/a",
		"delete: {resource: pods, namespace: b, name: a}":                              "delete pods b/a",
		"delete: {resource: nodes, name: a}":                                           "delete nodes a",
		"delete: {resource: pods, selector: a=b}":                                      "delete pods of default with a=b",
		"delete: {resource: nodes, selector: 'a in (b, c)'}":                           "delete nodes with a in (b, c)",
		"delete: {resource: pods, name: a, propagation: Background}":                   "delete pods default/a",
		"delete: {resource: pods, name: a, propagation: Orphan}":                       "delete pods default/a (Orphan)",
		"patch: {resource: pods, name: a, patch: {metadata: {labels: {a: null}}}}":     `patch pods default/a (merge): {"metadata":{"labels":{"a":null}}}`,
		"patch: {resource: pods, name: a, type: strategic, patch: {spec: {}}}":         `patch pods default/a (strategic): {"spec":{}}`,
		"patch: {resource: pods, selector: a=b, subresource: status, patch: {}}":       "patch pods/status of default with a=b (merge): {}",
		"patch: {resource: nodes, name: a, type: json, patch: [{op: test, path: ''}]}": `patch nodes a (json): [{"op":"test","path":""}]`,
		"wait: {cel: 'true'}":                                   "wait, 30s at most, until: true",
		"wait: {name: soon, cel: 'true', within: 2m}":           "wait, 2m0s at most, until: soon",
		"wait: {oracle: Gone, with: {resource: pods, name: a}}": "wait, 30s at most, until: pods default/a is gone",
		"settle: {}":           "settle, 30s at most",
		"settle: {within: 5s}": "settle, 5s at most",
	} {
		equal(t, written, want, steps(t, written)[0].String())
	}
}

// TestStepFields: what the caller needs to carry out each kind of step, with the defaults.
func TestStepFields(t *testing.T) {
	all := steps(t,
		"delete: {resource: pods, name: a}",
		"delete: {resource: webs.example.com, selector: 'a=b,c!=d', propagation: Foreground}",
		"patch: {resource: pods, namespace: b, name: a, subresource: status, patch: {status: {phase: Failed}}}",
		"patch: {resource: pods, name: a, type: strategic, patch: {spec: {a: 1}}}",
		"patch: {resource: pods, name: a, type: json, patch: [{op: add, path: /metadata/labels/a, value: {b: [1, 2.5, null]}}, {op: move, from: /a, path: /b}]}",
		"wait: {cel: 'true', within: 1500ms}",
	)
	equal(t, "delete", v1alpha1.Reference{Resource: "pods", Namespace: "default", Name: "a"}, all[0].On)
	equal(t, "propagation", metav1.DeletePropagationBackground, all[0].Propagation)
	equal(t, "delete by selector", v1alpha1.Reference{Resource: "webs.example.com", Selector: "a=b,c!=d"}, all[1].On)
	equal(t, "propagation", metav1.DeletePropagationForeground, all[1].Propagation)
	equal(t, "patch", v1alpha1.Reference{Resource: "pods", Namespace: "b", Name: "a"}, all[2].On)
	equal(t, "subresource", "status", all[2].Subresource)
	equal(t, "types", []types.PatchType{types.MergePatchType, types.StrategicMergePatchType, types.JSONPatchType},
		[]types.PatchType{all[2].PatchType, all[3].PatchType, all[4].PatchType})
	equal(t, "merge", `{"status":{"phase":"Failed"}}`, string(all[2].PatchData))
	equal(t, "json", `[{"op":"add","path":"/metadata/labels/a","value":{"b":[1,2.5,null]}},{"from":"/a","op":"move","path":"/b"}]`, string(all[4].PatchData))
	equal(t, "within", 1500*time.Millisecond, all[5].Within)
	for i, s := range all {
		if want := 7 + i; s.Line != want { // after head, clients and "steps:"
			t.Errorf("step %d is in line %d, want %d", i, s.Line, want)
		}
	}
	equal(t, "kinds", []scenario.StepKind{scenario.Delete, scenario.Delete, scenario.Patch, scenario.Patch, scenario.Patch, scenario.Wait},
		[]scenario.StepKind{all[0].Kind, all[1].Kind, all[2].Kind, all[3].Kind, all[4].Kind, all[5].Kind})
}

// TestWaitInvariant: the invariant of a wait is ready to be checked, again and again.
func TestWaitInvariant(t *testing.T) {
	wait := steps(t, `wait: {oracle: Never, with: {cel: 'get("pods", "default", "a") == null'}}`)[0].Invariant
	without, with := viewtest.NewWorld(t, ""), viewtest.NewWorld(t, "resource: pods\nmetadata: {namespace: default, name: a}\n")
	for range 2 {
		viewtest.Check(t, wait, without, "it is true")
		viewtest.Check(t, wait, with, "")
	}
}

// TestStepErrors: each mistake in a step is an error that names the field and what to write.
func TestStepErrors(t *testing.T) {
	const one = "a step is one of apply, create, delete, patch, wait, settle (an empty one is written {}); this one "
	for written, want := range map[string][]string{
		"{}":                                {": " + one + "has none"},
		"settle:":                           {": " + one + "has none"},
		"{settle: {}, wait: {cel: 'true'}}": {": " + one + "has wait and settle"},
		"{apply: {}, create: {}, delete: {resource: pods}}": {": " + one + "has apply and create and delete"},
		"[settle]":                 {": must be an object and is a list"},
		"settle":                   {": settle: must be an object and is a text"},
		"delete: {}":               {`.delete.resource: is missing; write one such as "pods" or "jobs.batch"`, ".delete: must have either name or selector"},
		"delete: {resource: pods}": {".delete: must have either name or selector"},
		"delete: {resource: pods, name: a, selector: b=c}":                                   {".delete: must have either name or selector"},
		"delete: {resource: pods, selector: 'a=b=c'}":                                        {".delete.selector: a=b=c: is not a label selector such as app=web: found '=', expected: ',' or 'end of string'"},
		"delete: {resource: pods, name: a, propagation: orphan}":                             {".delete.propagation: orphan: must be Background, Foreground or Orphan"},
		"delete: {resource: pods/status, name: a}":                                           {`.delete.resource: pods/status: is not a resource; write one such as "pods" or "jobs.batch"`},
		"delete: {resource: nodes, namespace: b, name: a}":                                   {".delete.namespace: b: nodes have no namespace; leave it out"},
		"patch: {resource: pods, name: a}":                                                   {".patch.patch: is missing"},
		"patch: {resource: pods, name: a, patch: null}":                                      {".patch.patch: is missing"},
		"patch: {resource: pods, name: a, patch: text}":                                      {".patch.patch: text: must be an object and is a text"},
		"patch: {resource: pods, name: a, type: Merge, patch: {}}":                           {".patch.type: Merge: must be merge, strategic or json"},
		"patch: {resource: pods, name: a, subresource: a b, patch: {}}":                      {".patch.subresource: a b: must be a name such as status or scale"},
		"patch: {resource: pods, name: a, type: json, patch: [{}]}":                          {".patch.patch[0].op: must be add, remove, replace, move, copy or test", ".patch.patch[0].path: is missing"},
		"patch: {resource: pods, name: a, type: json, patch: [{op: add, path: a/b}]}":        {".patch.patch[0].path: a/b: must begin with /"},
		"patch: {resource: pods, name: a, type: json, patch: [{op: add, path: /a, val: 1}]}": {".patch.patch[0].val: unknown field; want op, path, from or value"},
		"patch: {resource: pods, name: a, type: json, patch: [{op: add, path: 1}]}":          {`.patch.patch[0].path: 1: must be a text and is a number; write "1"`},
		"patch: {resource: pods, name: a, type: json, patch: {op: add}}":                     {".patch.patch: must be a list and is an object"},
		"wait: {cel: ''}":  {".wait.cel: is empty; write an expression that is true while the invariant holds"},
		"wait: {cel: '1'}": {".wait.cel: 1: column 1: the expression gives int, not true or false"},
		"wait: {oracle: Stays, with: {cel: 'true'}}":                                 {".wait.oracle: Stays: cannot be used in this place; use it in always"},
		"wait: {cel: 'true', within: -5s}":                                           {".wait.within: -5s: must be more than 0; leave it out for 30s"},
		"settle: {within: 0s}":                                                       {".settle.within: 0s: must be more than 0; leave it out for 30s"},
		"apply: {object: {kind: Pod, metadata: {name: a}}}":                          {".apply.object.apiVersion: is missing"},
		"create: {object: {apiVersion: v1, metadata: {name: a}}}":                    {".create.object.kind: is missing"},
		"apply: {object: {apiVersion: v1, kind: Pod, metadata: {generateName: a-}}}": {".apply.object.metadata.generateName: a-: an object that is applied needs a name; use create, or give a name"},
	} {
		_, err := parse("  steps:\n  - "+written+"\n", nil)
		for i := range want {
			want[i] = "spec.steps[0]" + want[i]
		}
		equal(t, written, want, problems(t, err))
	}
}

// TestEveryStepIsChecked: an error in one step does not conceal those in others, and has its line.
func TestEveryStepIsChecked(t *testing.T) {
	_, err := parse("  steps:\n  - settle: {within: 0s}\n  - settle: {}\n  - delete: {resource: pods}\n", nil)
	want := "s.yaml:7: spec.steps[0].settle.within: 0s: must be more than 0; leave it out for 30s\n" +
		"s.yaml:9: spec.steps[2].delete: must have either name or selector"
	equal(t, "errors", want, fmt.Sprint(err))
}
