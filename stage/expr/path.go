package expr

import (
	"slices"

	"github.com/itchyny/gojq"
)

// A path is the usual shape of a jq program: fields, keys, iterations and
// selects by one field, joined by pipes. It runs as field access on a Go struct
// (pathtyped.go) or on the maps of an unstructured object, with the answers jq
// would give: an error anywhere makes the whole result empty.

// Step is one move of a path.
type Step struct {
	Op   StepOp
	Name string // of a field
	// select(SUB == "text"), or != where negate is true.
	Sub    []Step
	Text   string
	truth  truthValue // of select(SUB == true), in place of text
	Negate bool
}

// truthValue is true, false or none of the two.
type truthValue int8

const (
	noTruth truthValue = iota
	isTrue
	isFalse
)

func truthOf(b bool) truthValue {
	if b {
		return isTrue
	}
	return isFalse
}

type StepOp uint8

const (
	Field StepOp = iota
	Iterate
	Select
)

// ParsePath returns the steps of a program that is a path, and whether it is one.
func ParsePath(q *gojq.Query) ([]Step, bool) { return appendPath(nil, q) }

// appendPath appends the steps of a program. A program may have thousands, so none is copied twice.
func appendPath(to []Step, q *gojq.Query) ([]Step, bool) {
	if q == nil || len(q.FuncDefs) > 0 || len(q.Imports) > 0 || q.Meta != nil || len(q.Patterns) > 0 {
		return nil, false
	}
	if q.Op == gojq.OpPipe {
		to, ok := appendPath(to, q.Left)
		if !ok {
			return nil, false
		}
		return appendPath(to, q.Right)
	}
	if q.Term == nil || q.Left != nil {
		return nil, false
	}
	return appendTerm(to, q.Term)
}

func appendTerm(out []Step, t *gojq.Term) ([]Step, bool) {
	switch t.Type {
	case gojq.TermTypeIdentity:
	case gojq.TermTypeIndex:
		name, ok := fieldName(t.Index)
		if !ok {
			return nil, false
		}
		out = append(out, Step{Name: name})
	case gojq.TermTypeQuery:
		var ok bool
		if out, ok = appendPath(out, t.Query); !ok {
			return nil, false
		}
	case gojq.TermTypeFunc:
		s, ok := parseSelect(t.Func)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	default:
		return nil, false
	}
	for _, suffix := range t.SuffixList {
		switch {
		case suffix.Optional:
			return nil, false
		case suffix.Iter:
			out = append(out, Step{Op: Iterate})
		default:
			name, ok := fieldName(suffix.Index)
			if !ok {
				return nil, false
			}
			out = append(out, Step{Name: name})
		}
	}
	return out, true
}

// fieldName reads .k, ."k" and ["k"].
func fieldName(i *gojq.Index) (string, bool) {
	switch {
	case i == nil || i.IsSlice:
		return "", false
	case i.Name != "":
		return i.Name, true
	case i.Str != nil:
		return i.Str.Str, len(i.Str.Queries) == 0
	case i.Start != nil:
		return literal(i.Start)
	}
	return "", false
}

// literal reads a string without interpolation.
func literal(q *gojq.Query) (string, bool) {
	if q == nil || q.Op != 0 || q.Left != nil || len(q.FuncDefs) > 0 || q.Term == nil ||
		q.Term.Type != gojq.TermTypeString || len(q.Term.SuffixList) > 0 || len(q.Term.Str.Queries) > 0 {
		return "", false
	}
	return q.Term.Str.Str, true
}

// literalTruth reads true and false.
func literalTruth(q *gojq.Query) truthValue {
	if q == nil || q.Op != 0 || q.Left != nil || len(q.FuncDefs) > 0 || q.Term == nil || len(q.Term.SuffixList) > 0 {
		return noTruth
	}
	switch q.Term.Type {
	case gojq.TermTypeTrue:
		return isTrue
	case gojq.TermTypeFalse:
		return isFalse
	}
	return noTruth
}

// parseSelect reads select(.a.b == "text"), select(.a.b != "text") and the same
// with true or false in place of the text.
func parseSelect(f *gojq.Func) (Step, bool) {
	if f.Name != "select" || len(f.Args) != 1 {
		return Step{}, false
	}
	q := f.Args[0]
	if (q.Op != gojq.OpEq && q.Op != gojq.OpNe) || len(q.FuncDefs) > 0 {
		return Step{}, false
	}
	text, ok := literal(q.Right)
	truth := literalTruth(q.Right)
	if !ok && truth == noTruth {
		return Step{}, false
	}
	sub, ok := ParsePath(q.Left)
	if !ok || slices.ContainsFunc(sub, func(s Step) bool { return s.Op != Field }) {
		return Step{}, false
	}
	return Step{Op: Select, Sub: sub, Text: text, truth: truth, Negate: q.Op == gojq.OpNe}, true
}

// tally is what a walk finds.
type tally struct {
	want   []string // texts looked for
	exists bool     // any result but null
	found  bool     // a result equals one of want
	first  Value    // the first result but null
	failed bool     // jq would report an error
}

func (t *tally) textResult(s string) {
	if !t.exists {
		t.exists, t.first = true, Value{Kind: Text, Text: s}
	}
	t.found = t.found || slices.Contains(t.want, s)
}

func (t *tally) result(v any) {
	if v == nil {
		return
	}
	if !t.exists {
		t.exists, t.first = true, valueOf(v)
	}
	for i := 0; i < len(t.want) && !t.found; i++ {
		t.found = equals(v, t.want[i])
	}
}

// Selects reports whether a select step keeps an item of a list.
func (s *Step) Selects(item any) bool {
	var t tally
	walk(item, s.Sub, &t)
	return (t.first.Kind == Text && t.first.Text == s.Text) != s.Negate
}

// walk runs steps on a JSON value.
func walk(v any, steps []Step, t *tally) {
	for i := range steps {
		s := &steps[i]
		switch s.Op {
		case Field:
			if v = field(v, s.Name, t); t.failed {
				return
			}
		case Iterate:
			walkEach(v, steps[i+1:], t)
			return
		case Select:
			at := v
			for j := range s.Sub {
				if at = field(at, s.Sub[j].Name, t); t.failed {
					return
				}
			}
			if s.is(at) == s.Negate {
				return
			}
		}
	}
	t.result(v)
}

// is compares a JSON value with the constant of a select.
func (s *Step) is(v any) bool {
	switch v := v.(type) {
	case string:
		return s.truth == noTruth && v == s.Text
	case bool:
		return s.truth == truthOf(v)
	}
	return false
}

func walkEach(v any, rest []Step, t *tally) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if walk(item, rest, t); t.failed {
				return
			}
		}
	case map[string]any: // jq goes by the order of the keys
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if walk(v[k], rest, t); t.failed {
				return
			}
		}
	default:
		t.failed = true
	}
}

func field(v any, name string, t *tally) any {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		return v[name]
	}
	t.failed = true
	return nil
}
