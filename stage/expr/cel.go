package expr

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
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const celSelf = "self"

// The variables of a CEL expression besides self. Now and Rand are written as functions and become variables, so
// that the expression reads the time and the random number of its View.
const (
	CELNow  = "now__"
	CELRand = "rand__"
)

// MaxCELCost bounds the work of one evaluation.
const MaxCELCost = 1_000_000

// CEL is a compiled CEL expression.
type CEL struct {
	program cel.Program
	// ReadsObject and readsChance report whether the expression reads self and Rand().
	ReadsObject, ReadsChance bool
}

// newCELEnvironment returns the environment of the expressions of stages. It is expensive, so a set creates one, and only if it contains
// CEL.
func newCELEnvironment() (*cel.Env, error) {
	return NewCELEnvironment(cel.Variable(celSelf, cel.DynType))
}

// NewCELEnvironment returns an environment with CEL's own functions, KWOK's Now, Rand, SinceSecond, UnixSecond and Quantity, and the
// given options. An evaluation needs values for CELNow and CELRand.
func NewCELEnvironment(more ...cel.EnvOption) (*cel.Env, error) {
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
		return eh.NewCall("sinceSecond__", object, eh.NewIdent(CELNow)), nil
	}
	return cel.NewEnv(append([]cel.EnvOption{
		cel.CustomTypeAdapter(celAdapter{}),
		cel.Variable(CELNow, cel.TimestampType),
		cel.Variable(CELRand, cel.DoubleType),
		cel.Macros(cel.StandardMacros...),
		cel.Macros(
			cel.GlobalMacro("Now", 0, variable(CELNow)),
			cel.GlobalMacro("Rand", 0, variable(CELRand)),
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
		convertsQuantity("int", cel.IntType), convertsQuantity("double", cel.DoubleType), convertsQuantity("string", cel.StringType),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
	}, more...)...)
}

// convertsQuantity extends a conversion function of CEL to quantities.
func convertsQuantity(function string, to *cel.Type) cel.EnvOption {
	return cel.Function(function, cel.Overload("quantity_to_"+function, []*cel.Type{quantityType}, to,
		cel.UnaryBinding(func(q ref.Val) ref.Val { return q.ConvertToType(to) })))
}

// CELCompiler compiles the expressions of one set.
type CELCompiler struct{ env *cel.Env }

// Compile compiles an expression. mayReadNow is as for jq: a selector may not
// read the time, because nothing would wake the object.
func (c *CELCompiler) Compile(text string, mayReadNow bool) (*CEL, error) {
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
		return nil, errors.New("cel " + limit.Quote(text) + ": " + issues.Errors()[0].Message)
	}
	if !mayReadNow && reads(checked, CELNow) {
		return nil, fmt.Errorf("cel %s: the time may not be read in a selector: nothing wakes the object when time passes; use a delay", limit.Quote(text))
	}
	program, err := c.env.Program(checked, cel.CostLimit(MaxCELCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("cel %s: %w", limit.Quote(text), err)
	}
	return &CEL{program: program, ReadsObject: reads(checked, celSelf), ReadsChance: reads(checked, CELRand)}, nil
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
func (v *View) celInput() ref.Val {
	if v.cel == nil {
		switch o := v.Object.(type) {
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
func (p *CEL) run(v *View, stage string) (out ref.Val, err error) {
	defer func() { // an overload that panics on unexpected values must not crash the process
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	out, _, err = p.program.Eval(map[string]any{
		celSelf: v.celInput(),
		CELNow:  types.Timestamp{Time: v.Now},
		CELRand: types.Double(Draw(v.Seed, v.UID, stage, v.Played, ForExpression)),
	})
	if err != nil && strings.Contains(err.Error(), "cost limit exceeded") {
		err = &limit.Exceeded{Reason: "the expression does too much: it is over the cost limit of " + strconv.Itoa(MaxCELCost)}
		v.Exceeded = err
	}
	return out, err
}

// Holds is the answer of a condition.
func (p *CEL) Holds(v *View, stage string) (bool, error) {
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

// First is the answer as a value.
func (p *CEL) First(v *View, stage string) (Value, error) {
	out, err := p.run(v, stage)
	if err != nil {
		return Value{}, err
	}
	switch out := out.(type) {
	case types.String:
		return Value{Kind: Text, Text: string(out)}, nil
	case types.Int:
		return Value{Kind: Number, Number: float64(out)}, nil
	case types.Uint:
		return Value{Kind: Number, Number: float64(out)}, nil
	case types.Double:
		return Value{Kind: Number, Number: float64(out)}, nil
	case types.Bool:
		return Value{Kind: Bool, Number: truth(bool(out))}, nil
	case types.Timestamp:
		return Value{Kind: Time, Time: out.Time}, nil
	case types.Duration:
		return Value{Kind: Duration, Duration: out.Duration}, nil
	case types.Null:
		return Value{}, nil
	case quantityValue:
		return Value{Kind: Number, Number: out.AsApproximateFloat64()}, nil
	}
	return Value{Kind: Other}, nil
}
