package cloneset

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

const (
	lifePage  = "../../../docs/reference/cloneset-lifecycle.md"
	lifeFirst = "<!-- transitions: from workload/cloneset; UPDATE_GOLDEN=1 go test -run TestLifecyclePage ./internal/workload/cloneset -->\n"
	lifeLast  = "<!-- end of transitions -->\n"
)

// lifeTable returns the transitions as a table and as a diagram.
func lifeTable() string {
	named := func(s kruise.LifecycleState) string {
		if s == "" {
			return "(none)"
		}
		return string(s)
	}
	var table, diagram strings.Builder
	table.WriteString("| From | To | When |\n|---|---|---|\n| | PreparingNormal | the pod is created |\n")
	diagram.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> PreparingNormal\n")
	arrow := map[string]bool{}
	for _, t := range transitions {
		var from []string
		for _, state := range t.from {
			from = append(from, named(state))
			// A pod without the label is Normal and is drawn as such.
			a, b := state, string(t.to)
			if a == "" {
				a = kruise.StateNormal
			}
			if t.to == gone {
				b = "[*]"
			}
			if line := fmt.Sprintf("    %s --> %s\n", a, b); !arrow[line] {
				arrow[line] = true
				diagram.WriteString(line)
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", strings.Join(from, ", "), t.to, t.when)
	}
	diagram.WriteString("```\n")
	return table.String() + "\n" + diagram.String()
}

// TestLifecyclePage checks that the documentation matches the transitions.
func TestLifecyclePage(t *testing.T) {
	text, err := os.ReadFile(lifePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), lifeFirst)
	_, after, ends := strings.Cut(rest, lifeLast)
	if !begins || !ends {
		t.Fatalf("%s has no markers for the table", lifePage)
	}
	want := before + lifeFirst + lifeTable() + lifeLast + after
	switch {
	case want == string(text):
	case os.Getenv("UPDATE_GOLDEN") != "":
		if err := os.WriteFile(lifePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the transitions; UPDATE_GOLDEN=1 updates it:\n%s", lifePage, lifeTable())
	}
}

// inTable reports whether transitions contains a transition between two states.
func inTable(from, to kruise.LifecycleState) bool {
	for _, t := range transitions {
		for _, f := range t.from {
			if f == from && t.to == to {
				return true
			}
		}
	}
	return false
}
