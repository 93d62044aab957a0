package scenario_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// part returns the lines of a description below a heading.
func part(t *testing.T, s *scenario.Scenario, heading string) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.Describe(&out); err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(out.String(), "\n"+heading+"\n")
	if !found {
		t.Fatalf("no %s in\n%s", heading, out.String())
	}
	lines, _, _ := strings.Cut(rest, "\n\n")
	return strings.TrimSuffix(lines, "\n")
}

// TestDescribeClients: a command is shown as it could be typed, with its environment and directory.
func TestDescribeClients(t *testing.T) {
	for client, want := range map[string]string{
		"builtin: job": "builtin job",
		"builtin: job, featureGates: {B: true, A: false}": "builtin job A=false B=true",
		"":                                   "its command is given after --",
		"command: [./a, --b, c]":             "./a --b c",
		"command: [./a, 'b c', '', \"d'e\"]": `./a 'b c' '' 'd'\''e'`,
		"command: [a, '$HOME', 'x;y', '*']":  "a '$HOME' 'x;y' '*'",
		"command: [a, '{{kubeconfig}}']":     "a {{kubeconfig}}",
		"command: [a], dir: b":               "a (in b)",
		"command: [a], env: [{name: B, value: c d}, {name: E}]": "B='c d' E='' a",
	} {
		lines := strings.Split(part(t, mustParse(t, "  clients: [{name: web, "+client+"}]\n"), "Clients"), "\n")
		equal(t, client, "  web  "+want, lines[0])
		equal(t, client, "       rights: all (group system:masters)", strings.TrimRight(lines[1], " "))
	}
}

// TestDescribeEmptyParts checks that a description reports which parts are empty.
func TestDescribeEmptyParts(t *testing.T) {
	s := mustParse(t, "  cluster: {nodes: 0, controllers: []}\n")
	equal(t, "cluster", "  nodes: 0\n  controllers: none", part(t, s, "Cluster"))
	equal(t, "steps", "  none: only the clients act", part(t, s, "Steps"))
	equal(t, "invariants", "  every run ends in the same state as runs without faults", part(t, s, "Invariants"))
	equal(t, "faults", "  all of level legal", part(t, s, "Faults"))
	equal(t, "budget", "  200 runs or 5m0s, whichever comes first", part(t, s, "Budget"))
	s = mustParse(t, "  invariants: {endsVary: true, sometimes: [{cel: 'true'}]}\n")
	equal(t, "ends that vary", "  in some run: true", part(t, s, "Invariants"))
}

// TestDescribeCluster: stages and objects are listed in their order.
func TestDescribeCluster(t *testing.T) {
	s := mustParse(t, `  cluster:
    stages: ["builtin:a", "builtin:b"]
    objects:
    - object: {apiVersion: v1, kind: Namespace, metadata: {name: b}}
    - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}
`)
	equal(t, "cluster", "  nodes: 2\n  controllers: stage, scheduler\n  stages: builtin:a, builtin:b\n  object: Namespace b\n  object: ConfigMap b/a", part(t, s, "Cluster"))
}

// TestDescribeAfterChanges: a description shows the command and the level of the command line.
func TestDescribeAfterChanges(t *testing.T) {
	s := mustParse(t, oneClient)
	if err := s.SetCommand([]string{"./web", "--fast"}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetLevel(fault.Seen); err != nil {
		t.Fatal(err)
	}
	equal(t, "clients", "  a  ./web --fast\n     rights: all (group system:masters)", part(t, s, "Clients"))
	equal(t, "faults", "  all of level seen", part(t, s, "Faults"))
}

// TestDescriptionText: the lines of the author's description are indented and blank ones left out.
func TestDescriptionText(t *testing.T) {
	s := mustParse(t, "  description: |\n    First line.\n\n      Second line.\n")
	var out bytes.Buffer
	if err := s.Describe(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "Scenario s (s.yaml)\n  First line.\n  Second line.\n\nCluster\n") {
		t.Errorf("%s", out.String())
	}
}

// TestSetCommandKeepsCaller: neither the caller's slice nor the document before the change is shared.
func TestSetCommandKeepsCaller(t *testing.T) {
	s := mustParse(t, "  clients: [{name: a, command: [old], env: [{name: A}], dir: sub}]\n")
	before, args := s.Document(), []string{"new", "arg"}
	if err := s.SetCommand(args); err != nil {
		t.Fatal(err)
	}
	args[0] = "changed"
	equal(t, "command", []string{"new", "arg"}, s.Clients[0].Command)
	equal(t, "in the document", []string{"new", "arg"}, s.Document().Spec.Clients[0].Command)
	equal(t, "before", []string{"old"}, before.Spec.Clients[0].Command)
	if s.Clients[0].Dir != "sub" || len(s.Clients[0].Env) != 1 {
		t.Errorf("the client became %+v", s.Clients[0])
	}
}

// FuzzDocument: a scenario that is read, written as YAML and read again is the same scenario.
func FuzzDocument(f *testing.F) {
	for _, spec := range []string{
		oneClient, "  clients: [{name: a, command: [x, '{{port}}'], as: {user: b}}]\n  steps: [{settle: {}}, {wait: {cel: 'true'}}]\n",
		oneClient + "  faults: {level: seen, only: [lag]}\n  budget: {runs: 3, time: 1m}\n",
		oneClient + "  steps: [{patch: {resource: pods, name: a, type: json, patch: [{op: add, path: /a, value: 1e3}]}}]\n",
		oneClient + "  cluster: {nodes: 0, controllers: []}\n  invariants: {endsVary: yes, always: [{oracle: NoOrphans}]}\n",
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := parseText(head + spec)
		if err != nil {
			return
		}
		data, err := yaml.Marshal(s.Document())
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseText(string(data))
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		want, _ := json.Marshal(s.Document())
		got, _ := json.Marshal(again.Document())
		if string(want) != string(got) {
			t.Errorf("%s\nbecomes\n%s", want, got)
		}
		var first, second bytes.Buffer
		if s.Describe(&first) != nil || again.Describe(&second) != nil || first.String() != second.String() {
			t.Errorf("%s\nbecomes\n%s", first.String(), second.String())
		}
	})
}
