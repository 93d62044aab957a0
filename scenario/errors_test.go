package scenario_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/scenario"
)

// TestErrorForm: an error is one line of file, line, field, value and reason, without those that are not known.
func TestErrorForm(t *testing.T) {
	for want, e := range map[string]scenario.Error{
		"f.yaml:7: spec.a: x: is wrong": {File: "f.yaml", Line: 7, Path: "spec.a", Value: "x", Reason: "is wrong"},
		"f.yaml:7: spec.a: is wrong":    {File: "f.yaml", Line: 7, Path: "spec.a", Reason: "is wrong"},
		"f.yaml:7: is wrong":            {File: "f.yaml", Line: 7, Reason: "is wrong"},
		"f.yaml: is wrong":              {File: "f.yaml", Reason: "is wrong"},
	} {
		equal(t, want, want, e.Error())
	}
}

// TestErrorsAs: a caller finds each error with its fields, and errors.Is finds one of them.
func TestErrorsAs(t *testing.T) {
	_, err := parse("  budget: {runs: -1, time: 0s}\n", nil)
	var all scenario.Errors
	if !errors.As(err, &all) || len(all) != 2 {
		t.Fatalf("%T: %v", err, err)
	}
	var one *scenario.Error
	if !errors.As(err, &one) {
		t.Fatalf("no error in %v", err)
	}
	equal(t, "the first", scenario.Error{File: "s.yaml", Line: 6, Path: "spec.budget.runs", Value: "-1", Reason: "must not be negative"}, *one)
	if !errors.Is(err, all[1]) || errors.Is(err, &scenario.Error{}) {
		t.Error("errors.Is does not find the second error, or finds another one")
	}
}

// TestErrorOrder: the errors of the scenario come first, by line; those of other files follow, by name and line; an
// error of a file that is listed twice is reported once.
func TestErrorOrder(t *testing.T) {
	_, err := parse(`  budget: {runs: -1}
  steps:
  - apply: {file: b.yaml}
  - settle: {within: 0s}
  cluster:
    objects: [{file: b.yaml}, {file: a.yaml}, {file: a.yaml}]
`, map[string]string{
		"a.yaml": "kind: Pod\napiVersion: v1\n---\nmetadata: {name: a}\nkind: Pod\n",
		"b.yaml": "- a\n",
	})
	equal(t, "errors", strings.Join([]string{
		"s.yaml:6: spec.budget.runs: -1: must not be negative",
		"s.yaml:9: spec.steps[1].settle.within: 0s: must be more than 0; leave it out for 30s",
		"a.yaml:1: metadata.name: is missing",
		"a.yaml:4: apiVersion: is missing",
		"b.yaml:1: must be an object and is a list",
	}, "\n"), fmt.Sprint(err))
}

// TestLongValues: values and paths are cut, so that an error stays one readable line.
func TestLongValues(t *testing.T) {
	long := strings.Repeat("ä", 100)
	_, err := parse("  cluster: {nodes: \""+long+"\"}\n", nil)
	equal(t, "a long value", []string{"spec.cluster.nodes: " + strings.Repeat("ä", 59) + "…: must be a whole number and is a text"}, problems(t, err))
	_, err = parse("  steps: [{wait: {cel: \"a\\n  b\\t c\"}}]\n", nil)
	if text := fmt.Sprint(err); strings.ContainsAny(text, "\n\t") || !strings.Contains(text, "spec.steps[0].wait.cel: a b c: ") {
		t.Errorf("a value of several lines: %q", text)
	}
	key := strings.Repeat("k", 200)
	_, err = parse("  budget: {"+key+": 1}\n", nil)
	equal(t, "a long key", []string{"spec.budget." + strings.Repeat("k", 107) + "…: unknown field; want runs or time"}, problems(t, err))
}

// TestProblemPaths: an error of the caller has the line and the value of the field, or those of what it is in.
func TestProblemPaths(t *testing.T) {
	s := mustParse(t, `  clients:
  - name: a
    builtin: job
    featureGates:
      A.b: true
  steps:
  - settle: {}
`)
	for path, want := range map[string]string{
		"spec.clients[0].builtin":      "s.yaml:7: spec.clients[0].builtin: job: no",
		"spec.clients[0].name":         "s.yaml:6: spec.clients[0].name: a: no",
		"spec.clients[0].featureGates": "s.yaml:8: spec.clients[0].featureGates: no",
		"spec.clients[0].command":      "s.yaml:6: spec.clients[0].command: no",
		"spec.clients[4].command":      "s.yaml:5: spec.clients[4].command: no",
		"spec.cluster.controllers[0]":  "s.yaml:4: spec.cluster.controllers[0]: no",
		"spec.steps[0].settle":         "s.yaml:11: spec.steps[0].settle: no",
		"metadata.name":                "s.yaml:3: metadata.name: s: no",
		"spec":                         "s.yaml:4: spec: no",
	} {
		equal(t, path, want, s.Problem(path, "no").Error())
	}
}

// TestCELErrors: an expression that does not compile is reported with the line and column of the file.
func TestCELErrors(t *testing.T) {
	for expr, want := range map[string]string{
		"1 == 1":                          "",
		"'  '":                            "s.yaml:8: spec.invariants.always[0].cel: is empty; write an expression that is true while the invariant holds",
		"list(\"pods\")":                  "s.yaml:8: spec.invariants.always[0].cel: list(\"pods\"): column 1: the expression gives list(dyn), not true or false",
		"podz()":                          "s.yaml:8: spec.invariants.always[0].cel: podz(): column 5: undeclared reference to 'podz' (in container '')",
		"|\n        true &&\n          x": "s.yaml:10: spec.invariants.always[0].cel: true && x: column 3: undeclared reference to 'x' (in container '')",
		"|\n        x":                    "s.yaml:9: spec.invariants.always[0].cel: x: column 1: undeclared reference to 'x' (in container '')",
		"\"true &&\\n x\"":                "s.yaml:8: spec.invariants.always[0].cel: true && x: line 2, column 2: undeclared reference to 'x' (in container '')",
	} {
		_, err := parse("  invariants:\n    always:\n    - cel: "+expr+"\n", nil)
		got := ""
		if err != nil {
			got = err.Error()
		}
		equal(t, expr, want, got)
	}
}

// TestReadIsRepeatable: the same text gives the same errors in the same order.
func TestReadIsRepeatable(t *testing.T) {
	const wrong = "  budget: {runs: -1, time: 0s, c: 1, b: 2, a: 3}\n  cluster: {nodes: -1, controllers: [b, b]}\n  clients: [{name: A, as: {}}, {name: b}]\n"
	_, first := parse(wrong, nil)
	for range 5 {
		_, again := parse(wrong, nil)
		if !slices.Equal(problems(t, first), problems(t, again)) {
			t.Fatalf("%v\nand then\n%v", first, again)
		}
	}
}
