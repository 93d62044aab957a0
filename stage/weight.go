package stage

import (
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"math"
	"strconv"
	"strings"
)

// The draw by weight uses ranks: stages with a weight above 0, then those with weight 0, then those with an invalid
// weight. A stage takes part only if no stage has a better rank.
type rank uint8

const (
	rankWeighed rank = iota
	rankZero
	rankBroken
)

// mostWeight limits weights so that sums and quotients are exact enough.
const mostWeight = 1 << 53

// weigh returns the weight of a stage on an object.
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

// asWeight reads a whole number as KWOK does: it truncates fractions, and accepts strings in any base of Go's
// syntax. Durations count in nanoseconds.
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

// weightProblem explains why weightFrom is invalid on this object; empty if it is valid.
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
