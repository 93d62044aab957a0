package stage

import (
	"fmt"
	"slices"
	"sort"

	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
)

// requirement is one compiled condition on an object. All of a stage's
// requirements must hold.
type requirement struct {
	text  string // for explanations
	query *query
	// test is nil for Exists and DoesNotExist.
	test   func(string) bool
	negate bool
}

func (r *requirement) holds(v *view) bool {
	if r.test == nil {
		return r.query.exists(v) != r.negate
	}
	return r.query.any(v, r.test) != r.negate
}

// compileSelector compiles a selector; the error names the field. Labels and
// annotations come first because they are the cheapest.
func compileSelector(s *v1alpha1.StageSelector, kind Kind) ([]requirement, *Error) {
	if s == nil {
		return nil, problem("spec.selector", "a stage without a selector matches nothing; write {} to match every object")
	}
	var out []requirement
	out = append(out, equalities("labels", s.MatchLabels)...)
	out = append(out, equalities("annotations", s.MatchAnnotations)...)
	for i, e := range s.MatchExpressions {
		field := fmt.Sprintf("spec.selector.matchExpressions[%d]", i)
		r, err := compileExpression(field, e, kind)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func equalities(which string, want map[string]string) []requirement {
	keys := make([]string, 0, len(want))
	for k := range want {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var out []requirement
	for _, key := range keys {
		value := want[key]
		n := mapKey(labelsOf, key)
		if which == "annotations" {
			n = mapKey(annotationsOf, key)
		}
		out = append(out, requirement{
			text:  fmt.Sprintf(".metadata.%s[%q] In [%q]", which, key, value),
			query: &query{native: n},
			test:  func(s string) bool { return s == value },
		})
	}
	return out
}

func compileExpression(field string, e v1alpha1.SelectorExpression, kind Kind) (requirement, *Error) {
	flat := e.Key != "" || e.Operator != "" || len(e.Values) > 0
	switch {
	case e.CEL != nil:
		return requirement{}, notYet(field+".cel", "write the requirement with jq")
	case e.JQ != nil && flat:
		return requirement{}, problem(field, "write either jq or key, operator and values, not both")
	case e.JQ == nil && !flat:
		return requirement{}, problem(field, "is empty: it needs jq")
	}
	jq := v1alpha1.SelectorJQ{Key: e.Key, Operator: e.Operator, Values: e.Values}
	if e.JQ != nil {
		field, jq = field+".jq", *e.JQ
	}
	if jq.Key == "" {
		return requirement{}, problem(field+".key", "is required")
	}
	r := requirement{text: fmt.Sprintf("%s %s", jq.Key, jq.Operator)}
	switch jq.Operator {
	case v1alpha1.SelectorOpIn, v1alpha1.SelectorOpNotIn:
		if len(jq.Values) == 0 {
			return requirement{}, problem(field+".values", fmt.Sprintf("must not be empty for operator %s", jq.Operator))
		}
		r.text = fmt.Sprintf("%s %q", r.text, jq.Values)
		r.test = oneOf(jq.Values)
		r.negate = jq.Operator == v1alpha1.SelectorOpNotIn
	case v1alpha1.SelectorOpExists, v1alpha1.SelectorOpDoesNotExist:
		if len(jq.Values) != 0 {
			return requirement{}, problem(field+".values", fmt.Sprintf("must be empty for operator %s", jq.Operator))
		}
		r.negate = jq.Operator == v1alpha1.SelectorOpDoesNotExist
	default:
		return requirement{}, problem(field+".operator", fmt.Sprintf("%q is not one of In, NotIn, Exists, DoesNotExist", jq.Operator))
	}
	var err error
	if r.query, err = compileQuery(jq.Key, kind, false); err != nil {
		return requirement{}, problem(field+".key", err.Error())
	}
	return r, nil
}

func oneOf(values []string) func(string) bool {
	if len(values) == 1 {
		only := values[0]
		return func(s string) bool { return s == only }
	}
	values = slices.Clone(values)
	return func(s string) bool { return slices.Contains(values, s) }
}
