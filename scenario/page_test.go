package scenario_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// page is the reference page. Some of its parts are generated.
const page = "../docs/reference/scenario.md"

// inPage compares the part of the page between two comments with the wanted text.
func inPage(t *testing.T, what, from, want string) {
	t.Helper()
	first := fmt.Sprintf("<!-- %s: from package %s; UPDATE_GOLDEN=1 go test -run %s ./scenario -->\n", what, from, t.Name())
	last := fmt.Sprintf("<!-- end of %s -->\n", what)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), first)
	_, after, ends := strings.Cut(rest, last)
	if !begins || !ends {
		t.Fatalf("%s has no place for %s", page, what)
	}
	golden(t, page, before+first+want+last+after)
}

func TestOraclesPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| Oracle | Holds while | Parameters | Allowed in |\n|---|---|---|---|\n")
	for _, o := range scenario.Oracles() {
		var params []string
		for _, p := range o.Params {
			name := "`" + p.Name + "`"
			if p.Required {
				name += " (required)"
			}
			params = append(params, name+": "+p.Says)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", o.Name, o.Sentence, strings.Join(params, "<br>"), strings.Join(o.Places, ", "))
	}
	inPage(t, "oracles", "scenario", table.String())
}

func TestAutomaticPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| Name | Requires |\n|---|---|\n")
	for _, a := range invariant.Automatics() {
		fmt.Fprintf(&table, "| `%s` | %s |\n", a.Name, a.Sentence)
	}
	inPage(t, "automatic invariants", "invariant", table.String())
}

func TestFaultsPage(t *testing.T) {
	acts := map[fault.Class]string{
		fault.Event: "watch events", fault.Call: "requests", fault.Process: "a client, at one of its writes", fault.Interference: "an object, after a write of it",
	}
	var table strings.Builder
	table.WriteString("| Kind | Level | Acts on | Holds something for a while | Allowed or seen by |\n|---|---|---|---|---|\n")
	for _, k := range fault.Kinds(fault.Adversarial) {
		holds := ""
		if k.Holds() {
			holds = "yes"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", k, k.Level(), acts[k.Class()], holds, k.Source())
	}
	table.WriteString("\n`crash` stands for `crash-before` and `crash-after`.\n")
	inPage(t, "faults", "fault", table.String())
}

// TestExample checks that the example on the page is a valid scenario.
func TestExample(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	objects := `{apiVersion: example.com/v1, kind: Web, metadata: {name: web}}`
	if _, err := scenario.Read("page.yaml", []byte(example), func(string) ([]byte, error) { return []byte(objects), nil }); err != nil {
		t.Error(err)
	}
}
