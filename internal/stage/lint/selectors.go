package lint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// clause is one requirement in the form in which two can be compared.
type clause struct {
	field string
	text  string
	// path is the program in one spelling; two with one path read the same.
	path  string
	steps []expr.Step // nil where the program is no plain path
	// single: the path has at most one result.
	single bool
	op     v1alpha1.SelectorOperator
	values []string
	cel    *expr.CEL
	celled string
}

// clausesOf takes a stage's requirements apart, in the order of its compiled ones.
func clausesOf(s *linted, c *stage.Compiled) []clause {
	var out []clause
	selector := s.Stage.Spec.Selector
	equal := func(which string, want map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(want)) {
			title := "matchLabels"
			if which == "annotations" {
				title = "matchAnnotations"
			}
			steps := []expr.Step{{Name: "metadata"}, {Name: which}, {Name: key}}
			out = append(out, clause{field: "spec.selector." + title + "." + key, steps: steps, op: v1alpha1.SelectorOpIn, values: []string{want[key]}})
		}
	}
	equal("labels", selector.MatchLabels)
	equal("annotations", selector.MatchAnnotations)
	for i, e := range selector.MatchExpressions {
		cl := clause{field: fmt.Sprintf("spec.selector.matchExpressions[%d]", i)}
		jq := v1alpha1.SelectorJQ{Key: e.Key, Operator: e.Operator, Values: e.Values}
		if e.JQ != nil {
			jq = *e.JQ
		}
		cl.op, cl.values = jq.Operator, jq.Values
		if jq.Key == "" && e.CEL != nil {
			cl.celled = e.CEL.Expression
		} else if parsed, err := gojq.Parse(jq.Key); err == nil {
			cl.path = parsed.String()
			cl.steps, _ = expr.ParsePath(parsed)
		}
		out = append(out, cl)
	}
	for i := range out {
		cl := &out[i]
		if i < len(c.Requirements) {
			cl.text, cl.cel = c.Requirements[i].Text, c.Requirements[i].CEL
		}
		if cl.steps != nil {
			cl.path = spelled(cl.steps)
			cl.single = !slices.ContainsFunc(cl.steps, func(s expr.Step) bool { return s.Op == expr.Iterate })
		}
	}
	return out
}

// spelled is a path in one spelling.
func spelled(steps []expr.Step) string {
	var b strings.Builder
	for _, s := range steps {
		switch s.Op {
		case expr.Field:
			fmt.Fprintf(&b, ".%q", s.Name)
		case expr.Iterate:
			b.WriteString("[]")
		case expr.Select:
			fmt.Fprintf(&b, "|select(%s %v %q)", spelled(s.Sub), s.Negate, s.Text)
		}
	}
	return b.String()
}

// exclude reports whether no object can satisfy both.
func exclude(a, b *clause) bool {
	return a.path != "" && a.path == b.path && (refutes(a, b) || refutes(b, a))
}

// refutes reports whether b fails wherever a, which reads the same, holds.
func refutes(a, b *clause) bool {
	if a.op != v1alpha1.SelectorOpIn {
		return a.op == v1alpha1.SelectorOpExists && b.op == v1alpha1.SelectorOpDoesNotExist
	}
	among := func(v string) bool { return slices.Contains(b.values, v) }
	switch b.op {
	case v1alpha1.SelectorOpDoesNotExist:
		return true
	case v1alpha1.SelectorOpNotIn: // whichever of a's values it is, b rules it out
		return !slices.ContainsFunc(a.values, func(v string) bool { return !among(v) })
	case v1alpha1.SelectorOpIn:
		return a.single && !slices.ContainsFunc(a.values, among)
	}
	return false
}

// neverTogether reports whether no object matches both stages.
func neverTogether(a, b *linted) bool {
	for i := range a.clauses {
		for j := range b.clauses {
			if exclude(&a.clauses[i], &b.clauses[j]) {
				return true
			}
		}
	}
	return false
}

// matching looks for requirements that cannot hold, alone or together, and for
// those that say nothing.
func (l *linter) matching(s *linted) {
	never := func(field, format string, args ...any) {
		l.say(s, Error, field, "the stage can never match: "+format, args...)
		s.never = true
	}
	example := reflectType(s.compiled.Kind)
	first := &expr.View{Object: samples(s.compiled.Kind)[0], Now: lintStart}
	for i := range s.clauses {
		a := &s.clauses[i]
		if wrong := endless(s.compiled.Requirements[i].Query, first); wrong != "" {
			never(a.field, "%s", wrong)
			continue
		}
		positive := a.op == v1alpha1.SelectorOpIn || a.op == v1alpha1.SelectorOpExists
		for j := range i {
			b := &s.clauses[j]
			switch {
			case exclude(a, b):
				never(a.field, "%s contradicts %s", a.text, b.text)
			case a.text == b.text:
				l.say(s, Warning, a.field, "%s is repeated", a.text)
			}
		}
		if a.celled != "" {
			l.constant(s, a, never)
		}
		if example == nil || a.steps == nil {
			continue
		}
		if _, wrong := typeAt(example, a.steps); wrong != "" {
			if positive {
				never(a.field, "%s", wrong)
			} else {
				l.say(s, Warning, a.field, "holds for every object: %s", wrong)
			}
			continue
		}
		l.values(s, a, never)
	}
}

// endless says of a program that it does not come to an end. It would be run on
// every object, so once is enough to know.
func endless(q *expr.Query, on *expr.View) string {
	if q == nil || !q.Interpreted() {
		return ""
	}
	_, err := q.Results(on)
	on.Exceeded = nil
	if errors.As(err, new(*limit.Exceeded)) {
		return err.Error()
	}
	return ""
}

// constant looks for a condition that does not read the object.
func (l *linter) constant(s *linted, a *clause, never func(string, string, ...any)) {
	if a.cel == nil || a.cel.ReadsObject {
		return
	}
	if a.cel.ReadsChance {
		l.say(s, Warning, a.field, "does not read the object, only chance; use weights")
		return
	}
	if holds, err := a.cel.Holds(&expr.View{}, s.Stage.Name); err == nil && holds {
		l.say(s, Warning, a.field, "holds for every object: it does not read it")
	} else {
		never(a.field, "%s does not read the object and does not hold", a.celled)
	}
}

// enumerated are fields of which the API knows all values.
var enumerated = map[stage.Kind]map[string][]string{
	stage.KindPod:  {`."status"."phase"`: {"Pending", "Running", "Succeeded", "Failed", "Unknown"}},
	stage.KindNode: {`."status"."phase"`: {"Pending", "Running", "Terminated"}},
	{APIVersion: "v1", Kind: "PersistentVolumeClaim"}: {`."status"."phase"`: {"Pending", "Bound", "Lost"}},
	{APIVersion: "v1", Kind: "PersistentVolume"}:      {`."status"."phase"`: {"Pending", "Available", "Bound", "Released", "Failed"}},
	{APIVersion: "v1", Kind: "Namespace"}:             {`."status"."phase"`: {"Active", "Terminating"}},
}

// conditionStatus are the values of a condition's status.
var conditionStatus = []string{"True", "False", "Unknown"}

// values looks for values that a field never has.
func (l *linter) values(s *linted, a *clause, never func(string, string, ...any)) {
	known := enumerated[s.compiled.Kind][a.path]
	if n := len(a.steps); n > 2 && a.steps[n-1].Name == "status" && strings.HasPrefix(a.path, `."status"."conditions"[]`) {
		known = conditionStatus
	}
	if known == nil {
		return
	}
	var odd []string
	for _, v := range a.values {
		if !slices.Contains(known, v) {
			odd = append(odd, v)
		}
	}
	if len(odd) == 0 {
		return
	}
	text := fmt.Sprintf("%s is never %q; it is one of %s", a.where(), odd, strings.Join(known, ", "))
	if len(odd) == len(a.values) && a.op == v1alpha1.SelectorOpIn {
		never(a.field, "%s", text)
		return
	}
	l.say(s, Warning, a.field, "%s", text)
}

// where is the path as it is written.
func (c *clause) where() string {
	where, _, _ := strings.Cut(c.text, " "+string(c.op))
	return where
}
