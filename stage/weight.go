package stage

import (
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
func (c *compiled) weigh(v *view) (float64, rank) {
	weight := float64(c.weight)
	if c.weightFrom != nil {
		got, err := c.weightFrom.first(v, c.name)
		if err != nil {
			return 1, rankBroken
		}
		if got.kind != valueNone {
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
func asWeight(v value) (float64, bool) {
	n := v.number
	switch v.kind {
	case valueText:
		text := strings.TrimSpace(v.text)
		if whole, err := strconv.ParseInt(text, 0, 64); err == nil {
			return float64(whole), true
		}
		var err error
		if n, err = strconv.ParseFloat(text, 64); err != nil {
			return 0, false
		}
	case valueNumber, valueTruth:
	case valueSpan:
		n = float64(v.span)
	default:
		return 0, false
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return math.Trunc(n), true
}

// weightProblem says why weightFrom could not be read; empty when it could.
func (c *compiled) weightProblem(v *view) string {
	if c.weightFrom == nil {
		return ""
	}
	got, err := c.weightFrom.first(v, c.name)
	if err != nil {
		return err.Error()
	}
	if _, ok := asWeight(got); !ok && got.kind != valueNone {
		return c.weightFrom.field + ": " + got.describe() + " is no whole number"
	}
	return ""
}
