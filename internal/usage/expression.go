package usage

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// The variables of an expression. celPlan is the Plan of the evaluation, which Usage and CumulativeUsage read.
const (
	celPod       = "pod"
	celNode      = "node"
	celContainer = "container"
	celPlan      = "plan__"
)

// maxPrograms is how many compiled expressions a Compiler keeps.
const maxPrograms = 1024

// Compiler compiles expressions, each text once. The zero value is ready to use.
type Compiler struct {
	envs     map[v1alpha1.MetricDimension]*cel.Env // created at the first expression, because they are expensive
	programs map[source]program
}

// source is the text of an expression, and the dimension that decides which variables it has. Usage has the dimension container.
type source struct {
	dimension v1alpha1.MetricDimension
	text      string
}

// program is a compiled expression, or the error of its compilation.
type program struct {
	cel.Program
	result *cel.Type
	err    error
}

// CheckExpression returns the error of an expression, in one line.
func CheckExpression(text string) error {
	return new(Compiler).compile(source{v1alpha1.MetricOfContainer, text}).err
}

func (c *Compiler) compile(from source) program {
	if p, ok := c.programs[from]; ok {
		return p
	}
	env := c.envs[from.dimension]
	if env == nil {
		var err error
		if env, err = newEnvironment(from.dimension); err != nil {
			return program{err: err}
		}
		if c.envs == nil {
			c.envs = map[v1alpha1.MetricDimension]*cel.Env{}
		}
		c.envs[from.dimension] = env
	}
	if c.programs == nil || len(c.programs) >= maxPrograms {
		c.programs = map[source]program{}
	}
	p := compile(env, from.text)
	c.programs[from] = p
	return p
}

func compile(env *cel.Env, text string) program {
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		// The first line says what and where; a drawing of the place follows it.
		return program{err: errors.New(issues.Errors()[0].Message)}
	}
	p, err := env.Program(checked, cel.CostLimit(expr.MaxCELCost), cel.EvalOptions(cel.OptOptimize))
	return program{p, checked.OutputType(), err}
}

// variables are the objects that the expressions of each dimension read.
var variables = map[v1alpha1.MetricDimension][]string{
	v1alpha1.MetricOfNode:      {celNode},
	v1alpha1.MetricOfPod:       {celNode, celPod},
	v1alpha1.MetricOfContainer: {celNode, celPod, celContainer},
}

func newEnvironment(dimension v1alpha1.MetricDimension) (*cel.Env, error) {
	options := []cel.EnvOption{cel.Variable(celPlan, cel.DynType)}
	for _, name := range variables[dimension] {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	options = append(options, usageFunction("Usage", (*Plan).usageOf)...)
	options = append(options, usageFunction("CumulativeUsage", (*Plan).cumulativeOf)...)
	options = append(options, startedFunction()...)
	return expr.NewCELEnvironment(options...)
}

// usageFunction defines a function of a node or a pod, a resource, and for pods optionally a container, as a method and as a function. Its
// calls become calls of an internal function with the Plan of the evaluation.
func usageFunction(name string, compute func(p *Plan, object any, resource, container string) (float64, error)) []cel.EnvOption {
	internal := name + "__"
	expand := func(eh parser.ExprHelper, target ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		all := []ast.Expr{eh.NewIdent(celPlan)}
		if target != nil && target.Kind() != ast.UnspecifiedExprKind {
			all = append(all, target)
		}
		return eh.NewCall(internal, append(all, args...)...), nil
	}
	call := func(args ...ref.Val) ref.Val {
		p, ok := args[0].Value().(*Plan)
		if !ok {
			return types.NewErr("%s: no plan", name)
		}
		var texts [2]string
		for i, arg := range args[2:] {
			text, ok := arg.(types.String)
			if !ok {
				return types.NewErr("%s: want the name of a resource and of a container, got a %s", name, arg.Type().TypeName())
			}
			texts[i] = string(text)
		}
		n, err := compute(p, args[1].Value(), texts[0], texts[1])
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Double(n)
	}
	overload := func(id string, args int) cel.FunctionOpt {
		in := make([]*cel.Type, args)
		for i := range in {
			in[i] = cel.DynType
		}
		return cel.Overload(internal+id, in, cel.DoubleType, cel.FunctionBinding(call))
	}
	return []cel.EnvOption{
		cel.Macros(cel.ReceiverMacro(name, 1, expand), cel.ReceiverMacro(name, 2, expand), cel.GlobalMacro(name, 2, expand), cel.GlobalMacro(name, 3, expand)),
		cel.Function(internal, overload("all", 3), overload("container", 4)),
	}
}

// planValue is a Plan as a value of CEL.
type planValue struct {
	ref.Val // no operation applies to it
	plan    *Plan
}

// Value implements ref.Val.
func (v planValue) Value() any { return v.plan }

// Type implements ref.Val.
func (v planValue) Type() ref.Type { return planType }

var planType = types.NewOpaqueType("plan")

// quantityOf converts the result of an expression to a usage.
func quantityOf(name corev1.ResourceName, v ref.Val) (resource.Quantity, error) {
	quantity, number, ok := expr.CELQuantity(v)
	if !ok {
		return resource.Quantity{}, fmt.Errorf("returns a %s; want a quantity or a number", v.Type().TypeName())
	}
	if quantity == nil {
		if math.IsNaN(number) || math.IsInf(number, 0) {
			return resource.Quantity{}, fmt.Errorf("returns %v", number)
		}
		q := fromNumber(name, number)
		quantity = &q
	}
	if quantity.Sign() < 0 {
		return resource.Quantity{}, fmt.Errorf("returns %s; a usage must not be negative", quantity)
	}
	return *quantity, nil
}

// fromNumber returns the quantity of a number, as precise as the usage of the resource is measured: CPU in nanocores, memory in bytes.
func fromNumber(name corev1.ResourceName, number float64) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU && math.Abs(number) < math.MaxInt64/1e9:
		return *resource.NewScaledQuantity(int64(math.Round(number*1e9)), resource.Nano)
	case math.Abs(number) >= math.MaxInt64:
		return *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(int64(math.Round(number)), resource.BinarySI)
	case math.Abs(number) < math.MaxInt64/1e3:
		return *resource.NewMilliQuantity(int64(math.Round(number*1e3)), resource.DecimalSI)
	}
	return *resource.NewQuantity(int64(number), resource.DecimalSI)
}

// oneLine removes the line breaks of an error.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
