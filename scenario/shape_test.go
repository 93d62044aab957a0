package scenario_test

import (
	"testing"
)

// TestShapes: a field with a value of another type is an error that names both types, and how a text is written.
func TestShapes(t *testing.T) {
	for spec, want := range map[string][]string{
		// texts
		"  description: 7\n":                 {`spec.description: 7: must be a text and is a number; write "7"`},
		"  description: yes\n":               {`spec.description: yes: must be a text and is true or false; write "yes"`},
		"  description: [a]\n":               {"spec.description: must be a text and is a list"},
		"  description: {a: b}\n":            {"spec.description: must be a text and is an object"},
		"  description: 2001-01-01\n":        nil, // a date is written like a text
		"  description: ''\n":                nil,
		"  description:\n":                   nil, // null is nothing
		"  faults: {level: 1.5}\n":           {`spec.faults.level: 1.5: must be a text and is a number; write "1.5"`},
		"  faults: {only: lag}\n":            {"spec.faults.only: lag: must be a list and is a text"},
		"  faults: {only: {lag: pods}}\n":    {"spec.faults.only: must be a list and is an object"},
		"  faults: {only: [true]}\n":         {`spec.faults.only[0]: true: must be a text and is true or false; write "true"`},
		"  faults: lag\n":                    {"spec.faults: lag: must be an object and is a text"},
		"  faults: []\n":                     {"spec.faults: must be an object and is a list"},
		"  invariants: {endsVary: \"no\"}\n": {"spec.invariants.endsVary: no: must be true or false and is a text"},
		"  invariants: {endsVary: 0}\n":      {"spec.invariants.endsVary: 0: must be true or false and is a number"},
		"  invariants: {endsVary: off}\n":    nil,
		// numbers
		"  cluster: {nodes: 1.0}\n":               {"spec.cluster.nodes: 1.0: must be a whole number and is a number"},
		"  cluster: {nodes: \"1\"}\n":             {"spec.cluster.nodes: 1: must be a whole number and is a text"},
		"  cluster: {nodes: [1]}\n":               {"spec.cluster.nodes: must be a whole number and is a list"},
		"  cluster: {nodes: true}\n":              {"spec.cluster.nodes: true: must be a whole number and is true or false"},
		"  cluster: {nodes: 0x2}\n":               nil,
		"  budget: {runs: 9223372036854775807}\n": nil,
		"  budget: {runs: 9223372036854775808}\n": {"spec.budget.runs: 9223372036854775808: is too large a number"},
		// durations
		"  budget: {time: 5}\n":        {`spec.budget.time: 5: must be a duration such as 30s and is a number; write "5"`},
		"  budget: {time: \"5\"}\n":    {"spec.budget.time: 5: is not a duration; write one such as 30s or 5m"},
		"  budget: {time: 5 min}\n":    {"spec.budget.time: 5 min: is not a duration; write one such as 30s or 5m"},
		"  budget: {time: [5m]}\n":     {"spec.budget.time: must be a duration such as 30s and is a list"},
		"  budget: {time: 0s}\n":       {"spec.budget.time: 0s: must be more than 0; leave it out for 5m0s"},
		"  budget: {time: 1h30m}\n":    nil,
		"  budget: {time: 0.5s}\n":     nil,
		"  budget: {time: 9999999h}\n": {"spec.budget.time: 9999999h: is not a duration; write one such as 30s or 5m"},
		// unknown fields
		"  budgets: {}\n":                        {"spec.budgets: unknown field; want description, cluster, clients, steps, invariants, faults or budget"},
		"  Budget: {}\n":                         {"spec.Budget: unknown field; want budget"},
		"  budget: {run: 1}\n":                   {"spec.budget.run: unknown field; want runs or time"},
		"  cluster: {node: 1}\n":                 {"spec.cluster.node: unknown field; want nodes, controllers, stages or objects"},
		"  invariants: {never: []}\n":            {"spec.invariants.never: unknown field; want always, eventually, sometimes, endsVary, ignore or disable"},
		"  clients: [{name: a, args: [x]}]\n":    {"spec.clients[0].args: unknown field; want name, command, builtin, featureGates, env, dir, as or leaderElection"},
		"  clients: [{name: a, as: {uid: x}}]\n": {"spec.clients[0].as.uid: unknown field; want serviceAccount, user or groups"},
		"  clients: [{name: a, command: [x], env: [{name: A, valueFrom: {}}]}]\n": {"spec.clients[0].env[0].valueFrom: unknown field; want name or value"},
		"  steps: [{sleep: 5s}]\n":                                  {"spec.steps[0].sleep: unknown field; want apply, create, delete, patch, wait or settle"},
		"  steps: [{settle: {for: 5s}}]\n":                          {"spec.steps[0].settle.for: unknown field; want within"},
		"  steps: [{wait: {cel: \"true\", timeout: 5s}}]\n":         {"spec.steps[0].wait.timeout: unknown field; want name, cel, oracle, with or within"},
		"  steps: [{delete: {resource: pods, labels: a=b}}]\n":      {"spec.steps[0].delete.labels: unknown field; want resource, namespace, name, selector or propagation"},
		"  steps: [{patch: {resource: pods, name: a, body: {}}}]\n": {"spec.steps[0].patch.body: unknown field; want resource, namespace, name, selector, type, patch or subresource"},
		// variables, which users write in several shapes
		"  clients: [{name: a, command: [x], env: {A: b}}]\n":                {"spec.clients[0].env: must be a list such as [{name: LOG_LEVEL, value: debug}] and is an object"},
		"  clients: [{name: a, command: [x], env: A=b}]\n":                   {"spec.clients[0].env: A=b: must be a list such as [{name: LOG_LEVEL, value: debug}] and is a text"},
		"  clients: [{name: a, command: [x], env: [A=b]}]\n":                 {"spec.clients[0].env[0]: A=b: must be an object such as {name: LOG_LEVEL, value: debug} and is a text"},
		"  clients: [{name: a, command: [x], env: [{A: b}]}]\n":              {"spec.clients[0].env[0].A: unknown field; want name or value"},
		"  clients: [{name: a, command: [x], env: [{name: A, value: 1}]}]\n": {`spec.clients[0].env[0].value: 1: must be a text and is a number; write "1"`},
		// maps
		"  clients: [{name: a, builtin: job, featureGates: [A]}]\n":        {"spec.clients[0].featureGates: must be an object and is a list"},
		"  clients: [{name: a, builtin: job, featureGates: {A: \"x\"}}]\n": {"spec.clients[0].featureGates.A: x: must be true or false and is a text"},
		"  clients: [{name: a, builtin: job, featureGates: {A.b: 1}}]\n":   {"spec.clients[0].featureGates[A.b]: 1: must be true or false and is a number"},
	} {
		_, err := parse(spec, nil)
		equal(t, spec, want, problems(t, err))
	}
}

// TestMetadata: metadata is decoded as the API does, and its name is checked.
func TestMetadata(t *testing.T) {
	for metadata, want := range map[string][]string{
		"{name: a-b.c}":             nil,
		"{name: A}":                 {"metadata.name: A: must be lower case letters, digits, - and ., such as rolling-update"},
		"{name: a_b}":               {"metadata.name: a_b: must be lower case letters, digits, - and ., such as rolling-update"},
		`{name: ""}`:                {"metadata.name: is missing"},
		"{}":                        {"metadata.name: is missing"},
		"a":                         {"metadata: a: must be an object and is a text"},
		"{name: a, labels: 1}":      {"metadata.labels: 1: must be an object and is a number"},
		"{name: a, labels: {b: 1}}": {`metadata.labels.b: 1: must be a text and is a number; write "1"`},
		"{name: a, creationTimestamp: yesterday}":                 {"metadata.creationTimestamp: yesterday: is not a Time"},
		"{name: a, creationTimestamp: 2001-01-01T00:00:00Z}":      nil,
		"{name: a, creationTimestamp: null, annotations: {b: c}}": nil,
		"{name: a, lables: {}}":                                   {"metadata.lables: unknown field"},
		"{name: a, Labels: {}}":                                   {"metadata.Labels: unknown field; want labels"},
	} {
		_, err := parseText("apiVersion: rehearse-k8s.github.io/v1alpha1\nkind: Scenario\nmetadata: " + metadata + "\nspec:\n" + oneClient)
		equal(t, metadata, want, problems(t, err))
	}
}

// TestKindOfFile: only this kind of this version is read; the error says what was found.
func TestKindOfFile(t *testing.T) {
	const only = "only kind Scenario of apiVersion rehearse-k8s.github.io/v1alpha1 is supported"
	for text, want := range map[string]string{
		"kind: Scenario\n": `kind: this is kind "Scenario" of apiVersion ""; ` + only,
		"apiVersion: rehearse-k8s.github.io/v1alpha1\nkind: scenario\n": `kind: this is kind "scenario" of apiVersion "rehearse-k8s.github.io/v1alpha1"; ` + only,
		"apiVersion: rehearse-k8s.github.io/v1\nkind: Scenario\n":       `kind: this is kind "Scenario" of apiVersion "rehearse-k8s.github.io/v1"; ` + only,
		"apiVersion: [a]\nkind: {b: c}\n":                               `kind: this is kind "" of apiVersion ""; ` + only,
		"[a, b]\n":                                                      `kind: this is kind "" of apiVersion ""; ` + only,
		"text\n":                                                        `kind: this is kind "" of apiVersion ""; ` + only,
		"":                                                              "is empty; want one Scenario",
		"---\n---\n# nothing\n":                                         "is empty; want one Scenario",
		"null\n":                                                        "is empty; want one Scenario",
	} {
		_, err := parseText(text)
		equal(t, text, []string{want}, problems(t, err))
	}
	// JSON is YAML, and documents without content do not count.
	if s, err := parseText(`---` + "\n" + `{"apiVersion": "rehearse-k8s.github.io/v1alpha1", "kind": "Scenario", "metadata": {"name": "j"}, "spec": {"clients": [{"name": "a"}]}}` + "\n---\n"); err != nil || s.Name != "j" {
		t.Errorf("%v %v", s, err)
	}
}
