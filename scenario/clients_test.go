package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/scenario"
)

func TestExpand(t *testing.T) {
	words := func(word string) (string, bool) {
		is, ok := map[string]string{"kubeconfig": "/k", "port": "1", "port:x": "{{port}}"}[word]
		return is, ok
	}
	for text, want := range map[string]string{
		"":                            "",
		"plain } text":                "plain } text",
		"--kubeconfig={{kubeconfig}}": "--kubeconfig=/k",
		"{{port}}{{ port:x }}":        "1{{port}}", // what a word stands for is not looked at again
		"{{nothing}}":                 "error: {{nothing}} is not a known word; want one of kubeconfig, namespace, dir, port, port:x, name",
		"a {{kubeconfig}":             "error: {{ without }}",
	} {
		got, err := scenario.Expand(text, words)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSetCommand(t *testing.T) {
	for _, c := range []struct{ clients, command, want string }{
		{"[{name: a}]", "./x --port={{port}}", "a: ./x --port={{port}}"},
		{"[{name: a, command: [old]}]", "./x", "a: ./x"},
		{"[{name: a, command: [old]}, {name: b}]", "./x", "a: old, b: ./x"},
		{"[{name: a, builtin: job}, {name: b, command: [old]}]", "./x", "a: , b: ./x"},
		{"[{name: a}]", "", "error: s.yaml: the command after -- is empty; write a program and its arguments"},
		{"[{name: a}]", "./x {{home}}", "error: s.yaml: the command after --: {{home}}: {{home}} is not a known word; want one of kubeconfig, namespace, dir, port, port:x, name"},
		{"[{name: a, builtin: job}]", "./x", "error: s.yaml: every client is a builtin, and a command cannot take its place; leave out what follows --"},
		{"[{name: a, command: [x]}, {name: b, command: [x]}]", "./x", "error: s.yaml: clients a, b have commands, and one after -- could be meant for any; leave it out, or take the command of the one that is meant out of the scenario"},
	} {
		s, err := scenario.Read("s.yaml", []byte(head+"  clients: "+c.clients), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := s.SetCommand(strings.Fields(c.command)); err != nil {
			got = []string{"error: " + err.Error()}
		} else {
			for i, client := range s.Clients {
				got = append(got, client.Name+": "+strings.Join(client.Command, " "))
				if !slices.Equal(client.Command, s.Spec.Clients[i].Command) {
					t.Errorf("%s: the document has %q", c.clients, s.Spec.Clients[i].Command)
				}
			}
			if s.NeedsCommand() != "" {
				t.Errorf("%s: %s still needs a command", c.clients, s.NeedsCommand())
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s\nwant %s", c.clients, text, c.want)
		}
	}
}
