package invariant

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"
)

// maxNamed limits the objects that the explanation of an expression names.
const maxNamed = 5

// explainer says why an expression has its value.
type explainer struct {
	root    ast.Expr
	program cel.Program // of the expression; it keeps the values of the parts of one evaluation
	// deciding evaluates, by the id of an all() or exists(), to the elements for which its condition is false or true.
	deciding map[int64]cel.Program
}

func newExplainer(env *cel.Env, expr *cel.Ast) (*explainer, error) {
	program, err := env.Program(expr, cel.CostLimit(costLimit), cel.EvalOptions(cel.OptTrackState))
	if err != nil {
		return nil, err
	}
	x := &explainer{root: expr.NativeRep().Expr(), program: program, deciding: map[int64]cel.Program{}}
	info := expr.NativeRep().SourceInfo()
	for id, macro := range info.MacroCalls() {
		call := macro.AsCall()
		name, args := call.FunctionName(), call.Args()
		if name != operators.All && name != operators.Exists || len(args) != 2 {
			continue
		}
		var parts [3]string
		for n, part := range []ast.Expr{call.Target(), args[0], args[1]} {
			if parts[n], err = parser.Unparse(part, info); err != nil {
				return nil, err
			}
		}
		if name == operators.All {
			parts[2] = "!(" + parts[2] + ")"
		}
		filter, issues := env.Compile(fmt.Sprintf("(%s).filter(%s, %s)", parts[0], parts[1], parts[2]))
		if issues != nil && issues.Err() != nil {
			continue // inside of another one, whose variable it uses
		}
		if x.deciding[id], err = env.Program(filter, cel.CostLimit(costLimit)); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// explain evaluates a false expression again, and says which part of it is false and for which objects; "" if
// that says nothing more.
func (x *explainer) explain(v View) string {
	vars := variables(v)
	_, details, err := x.program.Eval(vars)
	if err != nil || details == nil {
		return ""
	}
	return (&explanation{x, vars, details.State()}).of(x.root, false)
}

// explanation explains one evaluation.
type explanation struct {
	*explainer
	variables map[string]any
	values    interpreter.EvalState
}

// of explains why an expression has a value.
func (x *explanation) of(e ast.Expr, value bool) string {
	switch e.Kind() {
	case ast.ComprehensionKind:
		return x.ofComprehension(e, value)
	case ast.CallKind:
		return x.ofCall(e.AsCall(), value)
	}
	return ""
}

func (x *explanation) ofCall(c ast.CallExpr, value bool) string {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalNot:
		return x.of(args[0], !value)
	case operators.LogicalAnd, operators.LogicalOr:
		for _, arg := range args { // the first one that decides
			if v, _ := x.values.Value(arg.ID()); v == types.Bool(value) {
				if text := x.of(arg, value); text != "" {
					return text
				}
			}
		}
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return x.ofComparison(c, value)
	}
	return ""
}

// symbols are the comparisons, and opposites what is true if they are false.
var (
	symbols = map[string]string{
		operators.Equals: "==", operators.NotEquals: "!=", operators.Less: "<", operators.LessEquals: "<=",
		operators.Greater: ">", operators.GreaterEquals: ">=",
	}
	opposites = map[string]string{"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
)

// ofComparison returns, for example, "3 > 1: Pod default/web-0, Pod default/web-1, Pod default/web-2". It names the
// counted objects if there are too many: of those that are missing nothing is known.
func (x *explanation) ofComparison(c ast.CallExpr, value bool) string {
	symbol := symbols[c.FunctionName()]
	if !value {
		symbol = opposites[symbol]
	}
	args := c.Args()
	left, ok := x.simple(args[0])
	right, known := x.simple(args[1])
	if !ok || !known {
		return ""
	}
	text := fmt.Sprintf("%s %s %s", left, symbol, right)
	a, _ := x.values.Value(args[0].ID())
	b, _ := x.literal(args[1])
	if more, ok := a.(traits.Comparer); ok && b != nil && more.Compare(b) == types.IntOne {
		if names := x.counted(args[0]); names != "" {
			text += ": " + names
		}
	}
	return text
}

// literal returns the value of a part of an expression.
func (x *explanation) literal(e ast.Expr) (ref.Val, bool) {
	if e.Kind() == ast.LiteralKind {
		return e.AsLiteral(), true
	}
	return x.values.Value(e.ID())
}

// simple returns a number, a boolean or a quoted string as text; false for other values.
func (x *explanation) simple(e ast.Expr) (string, bool) {
	v, ok := x.literal(e)
	if !ok {
		return "", false
	}
	switch v := v.(type) {
	case types.String:
		return fmt.Sprintf("%q", string(v)), true
	case types.Int, types.Uint, types.Double, types.Bool, types.Duration:
		return fmt.Sprint(v.Value()), true
	}
	return "", false
}

// counted names the objects of LIST.size() or size(LIST).
func (x *explanation) counted(e ast.Expr) string {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "size" {
		return ""
	}
	c := e.AsCall()
	list := c.Target()
	if !c.IsMemberFunction() {
		list = c.Args()[0]
	}
	v, _ := x.values.Value(list.ID())
	return namesOf(v)
}

// namesOf names the objects of a list; "" if one of its elements is no object.
func namesOf(list ref.Val) string {
	elements, ok := list.(traits.Lister)
	if !ok {
		return ""
	}
	var names []string
	for i := elements.Iterator(); i.HasNext() == types.True; {
		name := nameOf(i.Next())
		if name == "" {
			return ""
		}
		names = append(names, name)
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// ofComprehension names the elements that decided an all() that is false or an exists() that is true.
func (x *explanation) ofComprehension(e ast.Expr, value bool) string {
	program := x.deciding[e.ID()]
	start, ok := e.AsComprehension().AccuInit().AsLiteral().(types.Bool)
	if program == nil || !ok || bool(start) == value {
		return "" // all() that is true, or exists() that is false: every element decides
	}
	elements, _, err := program.Eval(x.variables)
	if err != nil {
		return ""
	}
	if names := namesOf(elements); names != "" {
		return fmt.Sprintf("%t of %s", value, names)
	}
	return ""
}

// nameOf returns, for example, "Pod default/web-0" for an object; "" for another value.
func nameOf(v ref.Val) string {
	text := func(v ref.Val, key string) string {
		m, ok := v.(traits.Mapper)
		if !ok {
			return ""
		}
		value, _ := m.Find(types.String(key))
		s, _ := value.(types.String)
		return string(s)
	}
	m, ok := v.(traits.Mapper)
	if !ok {
		return ""
	}
	metadata, _ := m.Find(types.String("metadata"))
	name, namespace := text(metadata, "name"), text(metadata, "namespace")
	if name == "" {
		return ""
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(text(v, "kind") + " " + name)
}
