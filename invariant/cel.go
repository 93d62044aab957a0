package invariant

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// costLimit bounds the work of one check, in CEL's cost units, which are approximately evaluation
// steps: at most a quarter of a second.
const costLimit = 1_000_000

// CEL returns an invariant that holds while an expression is true:
//
//	list("pods", "default").filter(p, p.?status.phase.orValue("") == "Running").size() <= 3
//	get("jobs.batch", "default", "pi").status.succeeded <= 1
//	steps.filter(s, s.actor == "job" && s.verb == "create" && s.resource == "pods").size() < 10
//
// list(resource) and list(resource, namespace) return the objects of a resource;
// get(resource, namespace, name) returns one object, or null. now is the time on the run's clock and
// elapsed the time since the run started. steps is the record: each step has kind, actor, verb,
// resource, namespace, name, subresource, type, code, wrote, fault and at (in seconds). Reading
// steps takes time in proportion to the length of the run, so check such an expression at the end.
//
// sum() adds the numbers of a list, also as sum(list); the sum of an empty list is 0:
//
//	list("replicasets.apps").map(r, r.spec.replicas).sum() <= 4
//
// The message of a violation names the objects that decided it, if the expression compares the size of a list of
// objects or uses all() or exists() on one.
//
// A missing key violates the invariant; the optional syntax .?field with orValue, and has(), avoid
// that.
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
	explainer, err := newExplainer(env, ast)
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
			if why := explainer.explain(v); why != "" {
				return errors.New("the expression is false: " + why)
			}
			return errors.New("the expression is false")
		}
		return fmt.Errorf("the expression gives %s, not true or false", out.Type().TypeName())
	}}, nil
}

// MustCEL is like CEL but panics if the expression does not compile.
func MustCEL(name, expr string) Invariant {
	i, err := CEL(name, expr)
	if err != nil {
		panic(err)
	}
	return i
}

// where formats the first error of an expression, with its position.
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

// environment returns the CEL environment: CEL's own functions, the libraries that Kubernetes enables, and
// those of this package.
func environment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.OptionalTypes(),
		cel.EnableMacroCallTracking(),
		ext.Strings(), ext.Sets(), ext.Lists(), ext.Math(),
		cel.HomogeneousAggregateLiterals(),
		cel.Variable("now", cel.TimestampType),
		cel.Variable("elapsed", cel.DurationType),
		cel.Variable("steps", cel.ListType(cel.MapType(cel.StringType, cel.DynType))),
		// list and get read the View of the evaluation from a variable that no expression can
		// name, so that one compiled expression can be evaluated on several Views concurrently.
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
			cel.MemberOverload("list_sum", []*cel.Type{objectsType}, cel.DynType, cel.UnaryBinding(sum)),
			cel.Overload("sum_list", []*cel.Type{objectsType}, cel.DynType, cel.UnaryBinding(sum))),
		cel.Function("get",
			cel.MemberOverload("get_object", []*cel.Type{viewType, cel.StringType, cel.StringType, cel.StringType}, cel.DynType, cel.FunctionBinding(get))),
	)
}
