package stage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The variables a CEL expression is given beside self. Now and Rand are written
// as functions and become variables, so that the decision's own time and chance
// are read.
const (
	celSelf = "self"
	celNow  = "now__"
	celRand = "rand__"
)

// mostCELCost bounds the work of one evaluation.
const mostCELCost = 1_000_000

// celProgram is a compiled CEL expression.
type celProgram struct {
	program cel.Program
}

// newCELEnvironment has KWOK's functions Now, Rand, SinceSecond, UnixSecond and
// Quantity, beside CEL's own. It is dear, so one is made for a whole set, and
// only for one that has CEL in it.
func newCELEnvironment() (*cel.Env, error) {
	variable := func(name string) func(eh parser.ExprHelper, target ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		return func(eh parser.ExprHelper, _ ast.Expr, _ []ast.Expr) (ast.Expr, *common.Error) {
			return eh.NewIdent(name), nil
		}
	}
	unixSecond := func(at ref.Val) ref.Val {
		t, err := celTime(at)
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Double(float64(t.UnixNano()) / float64(time.Second))
	}
	sinceSecond := func(object, now ref.Val) ref.Val {
		t, err := celTime(object)
		if err != nil {
			t, err = createdAt(object)
		}
		if err != nil {
			return types.WrapErr(err)
		}
		n, err := celTime(now)
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Double(n.Sub(t).Seconds())
	}
	sinceMacro := func(eh parser.ExprHelper, target ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		object := target
		if target == nil || target.Kind() == ast.UnspecifiedExprKind {
			object = args[0]
		}
		return eh.NewCall("sinceSecond__", object, eh.NewIdent(celNow)), nil
	}
	return cel.NewEnv(
		cel.CustomTypeAdapter(celAdapter{}),
		cel.Variable(celSelf, cel.DynType),
		cel.Variable(celNow, cel.TimestampType),
		cel.Variable(celRand, cel.DoubleType),
		cel.Macros(cel.StandardMacros...),
		cel.Macros(
			cel.GlobalMacro("Now", 0, variable(celNow)),
			cel.GlobalMacro("Rand", 0, variable(celRand)),
			cel.GlobalMacro("SinceSecond", 1, sinceMacro),
			cel.ReceiverMacro("SinceSecond", 0, sinceMacro),
		),
		cel.Function("sinceSecond__", cel.Overload("sinceSecond___dyn_timestamp", []*cel.Type{cel.DynType, cel.TimestampType}, cel.DoubleType, cel.BinaryBinding(sinceSecond))),
		cel.Function("UnixSecond",
			cel.Overload("UnixSecond_dyn", []*cel.Type{cel.DynType}, cel.DoubleType, cel.UnaryBinding(unixSecond)),
			cel.MemberOverload("dyn_UnixSecond", []*cel.Type{cel.DynType}, cel.DoubleType, cel.UnaryBinding(unixSecond))),
		cel.Function("Quantity",
			cel.Overload("Quantity_string", []*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(parseQuantity)),
			cel.MemberOverload("string_Quantity", []*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(parseQuantity))),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
	)
}

// celCompiler compiles the expressions of one set.
type celCompiler struct{ env *cel.Env }

// compile compiles an expression. mayReadNow is as for jq: a selector may not
// read the time, because nothing would wake the object.
func (c *celCompiler) compile(text string, mayReadNow bool) (*celProgram, error) {
	if c.env == nil {
		env, err := newCELEnvironment()
		if err != nil {
			return nil, err
		}
		c.env = env
	}
	checked, issues := c.env.Compile(text)
	if err := issues.Err(); err != nil {
		// The first line says what and where; a drawing of the place follows it.
		return nil, errors.New("cel " + short(text) + ": " + issues.Errors()[0].Message)
	}
	if !mayReadNow && reads(checked, celNow) {
		return nil, fmt.Errorf("cel %s: the time may not be read in a selector: nothing wakes the object when time passes; use a delay", short(text))
	}
	program, err := c.env.Program(checked, cel.CostLimit(mostCELCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("cel %s: %w", short(text), err)
	}
	return &celProgram{program: program}, nil
}

// reads reports whether an expression reads a variable.
func reads(a *cel.Ast, variable string) bool {
	found := false
	ast.PreOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.IdentKind && e.AsIdent() == variable
	}))
	return found
}

// celInput is the object as CEL sees it: KWOK gives it Go structs of pods and
// nodes, where a field that is not set has its zero value, and maps of all else,
// where it is an error.
func (v *view) celInput() ref.Val {
	if v.cel == nil {
		switch o := v.object.(type) {
		case *corev1.Pod, *corev1.Node:
			v.cel = celAdapter{}.NativeToValue(o)
		case *unstructured.Unstructured:
			v.cel = celAdapter{}.NativeToValue(o.Object)
		default:
			v.cel = types.NullValue
		}
	}
	return v.cel
}

// run evaluates the expression for a stage.
func (p *celProgram) run(v *view, stage string) (out ref.Val, err error) {
	defer func() { // an overload on values nobody thought of must not end the process
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	out, _, err = p.program.Eval(map[string]any{
		celSelf: v.celInput(),
		celNow:  types.Timestamp{Time: v.now},
		celRand: types.Double(draw(v.seed, v.uid, stage, v.played, drawExpression)),
	})
	if err != nil && strings.Contains(err.Error(), "cost limit exceeded") {
		err = &overBudget{"the expression does too much: it is over the cost limit of " + strconv.Itoa(mostCELCost)}
		v.over = err
	}
	return out, err
}

// holds is the answer of a condition.
func (p *celProgram) holds(v *view, stage string) (bool, error) {
	out, err := p.run(v, stage)
	if err != nil {
		return false, err
	}
	answer, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("gives a %s and not a bool", out.Type().TypeName())
	}
	return bool(answer), nil
}

// first is the answer as a value.
func (p *celProgram) first(v *view, stage string) (value, error) {
	out, err := p.run(v, stage)
	if err != nil {
		return value{}, err
	}
	switch out := out.(type) {
	case types.String:
		return value{kind: valueText, text: string(out)}, nil
	case types.Int:
		return value{kind: valueNumber, number: float64(out)}, nil
	case types.Uint:
		return value{kind: valueNumber, number: float64(out)}, nil
	case types.Double:
		return value{kind: valueNumber, number: float64(out)}, nil
	case types.Bool:
		return value{kind: valueTruth, number: truth(bool(out))}, nil
	case types.Timestamp:
		return value{kind: valueTime, at: out.Time}, nil
	case types.Duration:
		return value{kind: valueSpan, span: out.Duration}, nil
	case types.Null:
		return value{}, nil
	case quantityValue:
		return value{kind: valueNumber, number: out.AsApproximateFloat64()}, nil
	}
	return value{kind: valueOther}, nil
}
