package stage

import (
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"math"
	"strconv"
	"strings"
)

// Stages that match together race by weight. Those with a weight above 0 come
// first, then those with 0, then those whose weight could not be read: a rank
// takes part only where no better one does.
type rank uint8

const (
	rankWeighed rank = iota
	rankZero
	rankBroken
)

// mostWeight keeps sums and quotients of weights exact enough.
const mostWeight = 1 << 53

// weigh is a stage's weight on an object.
func (c *Compiled) weigh(v *expr.View) (float64, rank) {
	weight := float64(c.weight)
	if c.weightFrom != nil {
		got, err := c.weightFrom.first(v, c.Name)
		if err != nil {
			return 1, rankBroken
		}
		if got.Kind != expr.None {
			n, ok := asWeight(got)
			if !ok {
				return 1, rankBroken
			}
			weight = n
		}
	}
	if weight <= 0 {
		return 1, rankZero
	}
	return min(weight, mostWeight), rankWeighed
}

// asWeight reads a whole number, as KWOK does: fractions are cut off, texts may
// be in any base that Go writes. Durations count in nanoseconds.
func asWeight(v expr.Value) (float64, bool) {
	n := v.Number
	switch v.Kind {
	case expr.Text:
		text := strings.TrimSpace(v.Text)
		if whole, err := strconv.ParseInt(text, 0, 64); err == nil {
			return float64(whole), true
		}
		var err error
		if n, err = strconv.ParseFloat(text, 64); err != nil {
			return 0, false
		}
	case expr.Number, expr.Bool:
	case expr.Duration:
		n = float64(v.Duration)
	default:
		return 0, false
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return math.Trunc(n), true
}

// weightProblem says why weightFrom could not be read; empty when it could.
func (c *Compiled) weightProblem(v *expr.View) string {
	if c.weightFrom == nil {
		return ""
	}
	got, err := c.weightFrom.first(v, c.Name)
	if err != nil {
		return err.Error()
	}
	if _, ok := asWeight(got); !ok && got.Kind != expr.None {
		return c.weightFrom.Field + ": " + got.Describe() + " is not a whole number"
	}
	return ""
}
