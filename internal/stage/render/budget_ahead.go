package render

import (
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"math"
	"reflect"
	"regexp"
	"strings"
)

// ahead holds the functions whose result, or work, may exceed their arguments by more than a constant factor. Each
// entry returns, before the call, what it costs in addition to its arguments.
var ahead = map[string]func(s *session, args []reflect.Value) int{
	"join":    func(_ *session, a []reflect.Value) int { return limit.Product(lengthOf(a[1]), textOf(a[0])) },
	"replace": replaceCost,

	"regexReplaceAll": regexReplaceCost, "mustRegexReplaceAll": regexReplaceCost,
	"regexReplaceAllLiteral": regexReplaceCost, "mustRegexReplaceAllLiteral": regexReplaceCost,
	"regexMatch": regexCost, "mustRegexMatch": regexCost, "regexFindAll": regexCost, "mustRegexFindAll": regexCost,
	"regexFind": regexCost, "mustRegexFind": regexCost, "regexSplit": regexCost, "mustRegexSplit": regexCost,

	"printf":   printfCost,
	"wrapWith": func(_ *session, a []reflect.Value) int { return limit.Product(1+a[2].Len(), textOf(a[1])) },

	"uniq": eachWithEach(0, 0), "mustUniq": eachWithEach(0, 0),
	"without": eachWithEach(0, 1), "mustWithout": eachWithEach(0, 1),
	"has": eachWithEach(1, 0), "mustHas": eachWithEach(1, 0),

	"toPrettyJson": indentedCost, "mustToPrettyJson": indentedCost, "YAML": yamlCost, "toYaml": indentedCost,
}

// textOf is the price of a text.
func textOf(v reflect.Value) int { return 1 + v.Len()/16 }

// inner is a value without its interfaces.
func inner(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	return v
}

func lengthOf(v reflect.Value) int {
	switch v = inner(v); v.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return v.Len()
	}
	return 1
}

// eachWithEach is the cost of comparing every item of one argument with another argument.
func eachWithEach(list, other int) func(*session, []reflect.Value) int {
	return func(s *session, a []reflect.Value) int {
		return limit.Product(lengthOf(a[list]), s.weightOf(a[other], 0))
	}
}

func replaceCost(_ *session, a []reflect.Value) int {
	return limit.Product(strings.Count(a[2].String(), a[0].String()), textOf(a[1]))
}

// regexCost is the price of compiling an expression, which each call does.
func regexCost(_ *session, a []reflect.Value) int { return 16 * textOf(a[0]) }

func regexReplaceCost(s *session, a []reflect.Value) int {
	cost := regexCost(s, a)
	expression, text, with := a[0].String(), a[1].String(), a[2].String()
	if s.spent+cost > mostSpent {
		return cost
	}
	r, err := regexp.Compile(expression)
	if err != nil {
		return cost // the function says so
	}
	matches := 0
	r.ReplaceAllStringFunc(text, func(string) string { matches++; return "" })
	// No group is longer than its match, and all matches are no longer than the text.
	return cost + limit.Product(matches, textOf(a[2])) + limit.Product(strings.Count(with, "$"), textOf(a[1]))
}

// printfCost is what widths, precisions and arguments that are named more than once make
// of a format. fmt takes no number above a million.
func printfCost(s *session, a []reflect.Value) int {
	const most = 1_000_000
	format, args := a[0].String(), a[1]
	cost, number, largest, heaviest := 0, 0, 0, 0
	for i := range args.Len() {
		arg := inner(args.Index(i))
		heaviest = max(heaviest, s.weightOf(arg, 0))
		if arg.CanInt() {
			largest = max(largest, int(min(arg.Int(), most)), int(min(-max(arg.Int(), -most), most)))
		}
	}
	for i := range len(format) {
		switch c := format[i]; {
		case c >= '0' && c <= '9':
			number = min(10*number+int(c-'0'), most)
		case c == '*':
			cost += largest / 16
			fallthrough
		default:
			cost, number = cost+number/16, 0
		}
	}
	if strings.Contains(format, "[") {
		cost += limit.Product(strings.Count(format, "%"), heaviest)
	}
	return cost
}

// indentedCost is what the blanks before every value of a nested one cost.
func indentedCost(s *session, a []reflect.Value) int {
	return limit.Product(s.weightOf(a[0], 0), depthOf(a[0], 0)) / 8
}

func yamlCost(s *session, a []reflect.Value) int {
	cost := indentedCost(s, a)
	if levels := a[1]; levels.Len() > 0 {
		n := int(min(max(levels.Index(0).Int(), 0), math.MaxInt32))
		cost += limit.Product(n, 1+s.weightOf(a[0], 0)*16) / 8 // a text may have a line at each byte
	}
	return cost
}

// depthOf returns how deeply a value is nested; weightOf has rejected values without end.
func depthOf(v reflect.Value, depth int) int {
	most := depth
	switch v = inner(v); v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			most = max(most, depthOf(v.Index(i), depth+1))
		}
	case reflect.Map:
		for keys := v.MapRange(); keys.Next(); {
			most = max(most, depthOf(keys.Value(), depth+1))
		}
	}
	return most
}
