package invariant

import (
	"errors"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/rehearse-k8s/rehearse/history"
)

// hidden is the variable that contains the View. Expressions cannot name it, because identifiers
// contain no @.
const hidden = "@view"

var (
	viewType    = cel.OpaqueType("rehearse.View")
	objectsType = cel.ListType(cel.DynType)
)

// celView is a View as an opaque CEL value.
type celView struct{ View }

func (celView) ConvertToNative(t reflect.Type) (any, error) {
	return nil, errors.New("a view cannot be converted")
}
func (celView) ConvertToType(ref.Type) ref.Val { return types.NewErr("a view cannot be converted") }
func (celView) Equal(ref.Val) ref.Val          { return types.False }
func (celView) Type() ref.Type                 { return viewType }
func (c celView) Value() any                   { return c.View }

// ofView rewrites list("pods") to @view.list("pods").
func ofView(f cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	name := "list"
	if len(args) == 3 {
		name = "get"
	}
	return f.NewMemberCall(name, f.NewIdent(hidden), args...), nil
}

// variables returns the variables of one evaluation. steps is built only if the expression uses it.
func variables(v View) map[string]any {
	return map[string]any{
		hidden:    celView{v},
		"now":     v.Now(),
		"elapsed": v.Elapsed(),
		"steps":   func() any { return celSteps(v.Run()) },
	}
}

func list(view, resource ref.Val) ref.Val { return listIn(view, resource) }

func listIn(args ...ref.Val) ref.Val {
	v := args[0].Value().(View)
	objects := []any{}
	for _, o := range v.List(string(args[1].(types.String))) {
		if len(args) < 3 || o.GetNamespace() == string(args[2].(types.String)) {
			objects = append(objects, o.Object)
		}
	}
	return types.DefaultTypeAdapter.NativeToValue(objects)
}

func get(args ...ref.Val) ref.Val {
	v := args[0].Value().(View)
	word := func(n int) string { return string(args[n].(types.String)) }
	if o := v.Get(word(1), word(2), word(3)); o != nil {
		return types.DefaultTypeAdapter.NativeToValue(o.Object)
	}
	return types.NullValue
}

// sum adds the numbers of a list; CEL has no such function. The sum of integers is an integer. If one of the
// numbers is a double, the sum is a double: CEL itself does not add integers and doubles, but JSON has only
// numbers. The sum of durations is a duration.
func sum(list ref.Val) ref.Val {
	var total ref.Val = types.IntZero
	for i, first := list.(traits.Lister).Iterator(), true; i.HasNext() == types.True; first = false {
		item := i.Next()
		adder, ok := item.(traits.Adder)
		if _, number := item.(traits.Subtractor); !ok || !number {
			return types.NewErr("sum() of a %s, which is not a number", item.Type().TypeName())
		}
		if first {
			total = item
			continue
		}
		if item.Type() != total.Type() {
			item, total = item.ConvertToType(types.DoubleType), total.ConvertToType(types.DoubleType)
			adder, ok = item.(traits.Adder)
			if !ok || types.IsError(total) {
				return types.NewErr("sum() of numbers and other values")
			}
		}
		if total = adder.Add(total); types.IsError(total) {
			return total
		}
	}
	return total
}

func celSteps(run *history.Run) []any {
	steps := make([]any, len(run.Steps))
	for i := range run.Steps {
		s := &run.Steps[i]
		steps[i] = map[string]any{
			"kind": string(s.Kind), "actor": s.Actor, "verb": s.Verb, "resource": s.Resource,
			"namespace": s.Namespace, "name": s.Name, "subresource": s.Subresource, "type": s.Type,
			"code": s.Code, "wrote": s.Wrote(), "fault": s.Fault, "at": s.At.Seconds(),
		}
	}
	return steps
}
