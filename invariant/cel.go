package invariant

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// costLimit bounds the work of one check, in the units of CEL, which are about its
// steps: a quarter of a second at most.
const costLimit = 1_000_000

// CEL makes an invariant of an expression that is true while it holds:
//
//	list("pods", "default").filter(p, p.?status.phase.orValue("") == "Running").size() <= 3
//	get("jobs.batch", "default", "pi").status.succeeded <= 1
//	steps.filter(s, s.actor == "job" && s.verb == "create" && s.resource == "pods").size() < 10
//
// list(resource) and list(resource, namespace) are the objects of a resource;
// get(resource, namespace, name) is one of them, or null. now is the run's clock and
// elapsed how far it has gone. steps is the record: of each step its kind, actor,
// verb, resource, namespace, name, subresource, type, code, wrote, fault and at (in
// seconds); reading it costs time with every step of the run, so an expression with
// steps is better judged at the end.
//
// sum() of a list of numbers is there too, and 0 of an empty one:
//
//	list("replicasets.apps").map(r, r.spec.replicas).sum() <= 4
//
// What the expression cannot find (no such key) breaks the invariant; the optional
// syntax .?field and orValue, and has(), say what is to be taken instead.
func CEL(name, expr string) (Invariant, error) {
	env, err := environment()
	if err != nil {
		return Invariant{}, fmt.Errorf("invariant %q: %w", name, err)
	}
	ast, issues := env.Compile(expr)
	if issues != nil && issues.Err() != nil {
		return Invariant{}, fmt.Errorf("invariant %q: %s", name, where(issues))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return Invariant{}, fmt.Errorf("invariant %q: column 1: the expression gives %s, not true or false", name, t)
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return Invariant{}, fmt.Errorf("invariant %q: %w", name, err)
	}
	return Invariant{Name: name, Check: func(v View) error {
		out, _, err := program.Eval(variables(v))
		switch {
		case err != nil && strings.Contains(err.Error(), "cost limit exceeded"):
			return fmt.Errorf("the expression costs more than %d: list less, or one namespace", costLimit)
		case err != nil:
			return fmt.Errorf("the expression cannot be evaluated: %w", err)
		case out == types.True:
			return nil
		case out == types.False:
			return errors.New("it is false")
		}
		return fmt.Errorf("the expression gives %s, not true or false", out.Type().TypeName())
	}}, nil
}

// MustCEL is CEL for expressions that are part of a test: it panics when the
// expression does not compile.
func MustCEL(name, expr string) Invariant {
	i, err := CEL(name, expr)
	if err != nil {
		panic(err)
	}
	return i
}

// where is the first thing that is wrong with an expression, and its place.
func where(issues *cel.Issues) string {
	all := issues.Errors()
	if len(all) == 0 {
		return issues.Err().Error()
	}
	first := all[0]
	place := fmt.Sprintf("column %d", first.Location.Column()+1)
	if line := first.Location.Line(); line > 1 {
		place = fmt.Sprintf("line %d, %s", line, place)
	}
	return place + ": " + first.Message
}

// environment is the language: CEL's own functions, those that are at hand in
// Kubernetes too, and ours.
func environment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.OptionalTypes(),
		ext.Strings(), ext.Sets(), ext.Lists(), ext.Math(),
		cel.HomogeneousAggregateLiterals(),
		cel.Variable("now", cel.TimestampType),
		cel.Variable("elapsed", cel.DurationType),
		cel.Variable("steps", cel.ListType(cel.MapType(cel.StringType, cel.DynType))),
		// list and get read the view of this evaluation, which reaches them as a
		// variable that no expression can name: so one compiled expression may be
		// checked in several worlds at once.
		cel.Variable(hidden, viewType),
		cel.Macros(
			cel.GlobalMacro("list", 1, ofView),
			cel.GlobalMacro("list", 2, ofView),
			cel.GlobalMacro("get", 3, ofView),
		),
		cel.Function("list",
			cel.MemberOverload("list_resource", []*cel.Type{viewType, cel.StringType}, objectsType, cel.BinaryBinding(list)),
			cel.MemberOverload("list_resource_namespace", []*cel.Type{viewType, cel.StringType, cel.StringType}, objectsType, cel.FunctionBinding(listIn))),
		cel.Function("sum",
			cel.MemberOverload("list_sum", []*cel.Type{objectsType}, cel.DynType, cel.UnaryBinding(sum))),
		cel.Function("get",
			cel.MemberOverload("get_object", []*cel.Type{viewType, cel.StringType, cel.StringType, cel.StringType}, cel.DynType, cel.FunctionBinding(get))),
	)
}
