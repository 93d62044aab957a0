package stage

import (
	"fmt"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// Expression reads one value from an object, by jq or by CEL.
type Expression struct {
	Field string // its path in the stage
	JQ    *expr.Query
	cel   *expr.CEL
}

// compileFrom compiles weightFrom, durationFrom and jitterDurationFrom.
func (c *compiling) compileFrom(field string, from *v1alpha1.ExpressionFrom) (*Expression, *Error) {
	if from == nil {
		return nil, nil
	}
	jq := from.ExpressionFrom
	switch {
	case from.JQ != nil:
		if from.CEL != nil {
			c.warn(field+".cel", "is ignored because jq is set; remove one of the two")
		}
		if from.ExpressionFrom != "" {
			c.warn(field+".expressionFrom", "is ignored because jq is set; remove one of the two")
		}
		field, jq = field+".jq.expression", from.JQ.Expression
	case from.CEL != nil && jq == "":
		field += ".cel.expression"
		if from.CEL.Expression == "" {
			return nil, problem(field, "is empty")
		}
		program, err := c.cel.Compile(from.CEL.Expression, true)
		if err != nil {
			return nil, problem(field, err.Error())
		}
		return &Expression{Field: field, cel: program}, nil
	case jq != "":
		if from.CEL != nil {
			c.warn(field+".cel", "is ignored because expressionFrom is set; remove one of the two")
		}
		field += ".expressionFrom"
	default:
		return nil, problem(field, "is empty: it needs jq or cel")
	}
	if jq == "" {
		return nil, problem(field, "is empty")
	}
	q, err := expr.CompileJQ(jq, c.kind.form(), true)
	if err != nil {
		return nil, problem(field, err.Error())
	}
	return &Expression{Field: field, JQ: q}, nil
}

// first evaluates the expression. The error of a jq program counts as no result; that of a CEL expression is
// returned.
func (x *Expression) first(v *expr.View, stage string) (expr.Value, error) {
	if x.JQ != nil {
		return x.JQ.First(v), nil
	}
	return x.read(v, stage)
}

// read is like first, for callers that must not ignore errors: it also returns the error of a jq program, unless
// the error is about an absent field.
func (x *Expression) read(v *expr.View, stage string) (expr.Value, error) {
	if x.JQ != nil {
		got, err := x.JQ.Read(v)
		if err != nil {
			err = fmt.Errorf("%s: %w", x.Field, err)
		}
		return got, err
	}
	got, err := x.cel.First(v, stage)
	if err != nil {
		return expr.Value{}, fmt.Errorf("%s: %w", x.Field, err)
	}
	return got, nil
}
