package stage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// Requirement is one compiled condition on an object. All requirements of a stage must hold.
type Requirement struct {
	Text  string // for explanations
	Query *expr.Query
	// values are the values of In and NotIn; nil for Exists and DoesNotExist.
	values []string
	negate bool
	CEL    *expr.CEL // instead of the fields above
}

// Holds evaluates the requirement. A requirement that cannot be evaluated, or that exceeds its budget, does not
// hold, and does not affect other stages.
func (r *Requirement) Holds(v *expr.View, stage string) bool {
	var holds bool
	switch {
	case r.CEL != nil:
		answer, err := r.CEL.Holds(v, stage)
		holds = err == nil && answer
	case r.values == nil:
		holds = r.Query.Exists(v) != r.negate
	default:
		holds = r.Query.In(v, r.values) != r.negate
	}
	return holds && v.Exceeded == nil
}

// problem explains why the requirement could not be evaluated; empty if it could.
func (r *Requirement) problem(v *expr.View, stage string) string {
	if r.CEL == nil {
		if r.Query.HasProgram() {
			if _, err := r.Query.Results(v); v.Exceeded != nil {
				v.Exceeded = nil
				return err.Error()
			}
		}
		return ""
	}
	if _, err := r.CEL.Holds(v, stage); err != nil {
		return err.Error()
	}
	return ""
}

// compileSelector compiles a selector; an error names the field. Labels and annotations come first because they are
// the cheapest.
func (c *compiling) compileSelector(s *v1alpha1.StageSelector) ([]Requirement, *Error) {
	var out []Requirement
	out = append(out, c.equalities("labels", s.MatchLabels)...)
	out = append(out, c.equalities("annotations", s.MatchAnnotations)...)
	for i, e := range s.MatchExpressions {
		field := fmt.Sprintf("spec.selector.matchExpressions[%d]", i)
		r, err := c.compileExpression(field, e)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (c *compiling) equalities(which string, want map[string]string) []Requirement {
	var out []Requirement
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value := want[key]
		out = append(out, Requirement{
			Text:   fmt.Sprintf(".metadata.%s[%q] In [%q]", which, key, value),
			Query:  expr.MetadataKey(c.kind.form(), which, key),
			values: []string{value},
		})
	}
	return out
}

func (c *compiling) compileExpression(field string, e v1alpha1.SelectorExpression) (Requirement, *Error) {
	flat := e.Key != "" || e.Operator != "" || len(e.Values) > 0
	jq := v1alpha1.SelectorJQ{Key: e.Key, Operator: e.Operator, Values: e.Values}
	switch {
	case e.JQ != nil:
		if flat {
			c.warn(field, "key, operator and values are ignored because jq is set; remove one of the two")
		}
		if e.CEL != nil {
			c.warn(field+".cel", "is ignored because jq is set; remove one of the two")
		}
		field, jq = field+".jq", *e.JQ
	case flat:
		if e.CEL != nil {
			c.warn(field+".cel", "is ignored because key and operator are set; remove one of the two")
		}
	case e.CEL != nil:
		return c.compileCondition(field+".cel.expression", e.CEL.Expression)
	default:
		return Requirement{}, problem(field, "is empty: it needs jq or cel")
	}
	if jq.Key == "" {
		return Requirement{}, problem(field+".key", "is required")
	}
	r := Requirement{Text: fmt.Sprintf("%s %s", jq.Key, jq.Operator)}
	switch jq.Operator {
	case v1alpha1.SelectorOpIn, v1alpha1.SelectorOpNotIn:
		if len(jq.Values) == 0 {
			return Requirement{}, problem(field+".values", fmt.Sprintf("must not be empty for operator %s", jq.Operator))
		}
		r.Text = fmt.Sprintf("%s %q", r.Text, jq.Values)
		r.values = slices.Clone(jq.Values)
		r.negate = jq.Operator == v1alpha1.SelectorOpNotIn
	case v1alpha1.SelectorOpExists, v1alpha1.SelectorOpDoesNotExist:
		if len(jq.Values) != 0 {
			return Requirement{}, problem(field+".values", fmt.Sprintf("must be empty for operator %s", jq.Operator))
		}
		r.negate = jq.Operator == v1alpha1.SelectorOpDoesNotExist
	default:
		return Requirement{}, problem(field+".operator", fmt.Sprintf("%q is not one of In, NotIn, Exists, DoesNotExist", jq.Operator))
	}
	var err error
	if r.Query, err = expr.CompileJQ(jq.Key, c.kind.form(), false); err != nil {
		return Requirement{}, problem(field+".key", err.Error())
	}
	return r, nil
}

func (c *compiling) compileCondition(field, text string) (Requirement, *Error) {
	if text == "" {
		return Requirement{}, problem(field, "is empty")
	}
	program, err := c.cel.Compile(text, false)
	if err != nil {
		return Requirement{}, problem(field, err.Error())
	}
	return Requirement{Text: text, CEL: program}, nil
}
