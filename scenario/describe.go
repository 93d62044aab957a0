package scenario

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// Describe writes a summary of the scenario for people: cluster, clients, steps, invariants, faults and budget.
func (s *Scenario) Describe(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "Scenario %s (%s)\n", s.Name, s.File)
	for line := range strings.SplitSeq(strings.TrimSpace(s.Spec.Description), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
	s.describeCluster(out)
	s.describeClients(out)
	fmt.Fprintf(out, "\nSteps\n")
	for i, step := range s.Steps {
		fmt.Fprintf(out, "  %d. %s\n", i+1, step)
	}
	if len(s.Steps) == 0 {
		fmt.Fprintf(out, "  none: only the clients act\n")
	}
	s.describeInvariants(out)
	s.describeSearch(out)
	return out.Flush()
}

func (s *Scenario) describeCluster(out io.Writer) {
	controllers := strings.Join(s.Controllers, ", ")
	if controllers == "" {
		controllers = "none"
	}
	fmt.Fprintf(out, "\nCluster\n  nodes: %d\n  controllers: %s\n", s.Nodes, controllers)
	if len(s.Stages) > 0 {
		fmt.Fprintf(out, "  stages: %s\n", strings.Join(s.Stages, ", "))
	}
	for _, o := range s.Objects {
		fmt.Fprintf(out, "  object: %s\n", nameOfObject(o))
	}
}

func (s *Scenario) describeClients(out io.Writer) {
	fmt.Fprintf(out, "\nClients\n")
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range s.Clients {
		fmt.Fprintf(columns, "  %s\t%s\n", s.Clients[i].Name, describeClient(&s.Clients[i]))
		fmt.Fprintf(columns, "  \trights: %s\n", Rights(&s.Clients[i]))
	}
	_ = columns.Flush() // out.Flush returns the error
}

func describeClient(c *v1alpha1.Client) string {
	switch {
	case c.Builtin != "":
		text := "builtin " + c.Builtin
		for _, gate := range slices.Sorted(maps.Keys(c.FeatureGates)) {
			text += fmt.Sprintf(" %s=%t", gate, c.FeatureGates[gate])
		}
		return text
	case len(c.Command) == 0:
		return "its command is given after --"
	}
	var parts []string
	for _, e := range c.Env {
		parts = append(parts, e.Name+"="+quoted(e.Value))
	}
	for _, argument := range c.Command {
		parts = append(parts, quoted(argument))
	}
	text := strings.Join(parts, " ")
	if c.Dir != "" {
		text += " (in " + c.Dir + ")"
	}
	return text
}

// quoted quotes a word for a shell.
func quoted(word string) string {
	if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?#~!") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

func (s *Scenario) describeInvariants(out io.Writer) {
	fmt.Fprintf(out, "\nInvariants\n")
	p := s.Invariants()
	for _, i := range p.Always {
		fmt.Fprintf(out, "  always: %s\n", i.Name)
	}
	for _, i := range p.Eventually {
		fmt.Fprintf(out, "  within %s of the last step: %s\n", i.Within, i.Name)
	}
	for _, i := range p.Sometimes {
		fmt.Fprintf(out, "  in some run: %s\n", i.Name)
	}
	if !s.EndsVary {
		fmt.Fprintf(out, "  every run ends in the same state as runs without faults\n")
	}
	for _, i := range s.Ignore {
		fmt.Fprintf(out, "  not compared: %s\n", strings.TrimSpace(i.Resource+" "+i.Path))
	}
	for _, name := range s.Disabled {
		if name != invariant.AutomaticEndState {
			fmt.Fprintf(out, "  not checked: %s\n", name)
		}
	}
}

func (s *Scenario) describeSearch(out io.Writer) {
	fmt.Fprintf(out, "\nFaults\n")
	if len(s.Spec.Faults.Only) == 0 {
		fmt.Fprintf(out, "  all of level %s\n", s.Level)
	} else {
		for _, f := range fault.Strings(s.Patterns) {
			fmt.Fprintf(out, "  %s\n", f)
		}
	}
	for _, f := range fault.Strings(s.Except) {
		fmt.Fprintf(out, "  never: %s\n", f)
	}
	if len(s.Trusted) > 0 {
		fmt.Fprintf(out, "  none for: %s\n", strings.Join(s.Trusted, ", "))
	}
	fmt.Fprintf(out, "\nBudget\n  %d runs or %s, whichever comes first\n", s.Runs, s.Budget)
}

// Document returns the scenario as a file has it, with the changes of SetCommand and SetLevel.
func (s *Scenario) Document() *v1alpha1.Scenario {
	return &v1alpha1.Scenario{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ScenarioKind},
		ObjectMeta: *s.meta.DeepCopy(),
		Spec:       s.Spec,
	}
}
