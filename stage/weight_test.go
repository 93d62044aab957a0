package stage

import (
	"math"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"pgregory.net/rapid"
)

func TestWeightsThatAnExpressionGives(t *testing.T) {
	for name, c := range map[string]struct {
		value expr.Value
		want  float64
		ok    bool
	}{
		"whole number":       {expr.Value{Kind: expr.Number, Number: 7}, 7, true},
		"fraction":           {expr.Value{Kind: expr.Number, Number: 7.9}, 7, true},
		"negative fraction":  {expr.Value{Kind: expr.Number, Number: -7.9}, -7, true},
		"not a number":       {expr.Value{Kind: expr.Number, Number: math.NaN()}, 0, false},
		"infinite":           {expr.Value{Kind: expr.Number, Number: math.Inf(1)}, 0, false},
		"true":               {expr.Value{Kind: expr.Bool, Number: 1}, 1, true},
		"false":              {expr.Value{Kind: expr.Bool}, 0, true},
		"duration":           {expr.Value{Kind: expr.Duration, Duration: 3 * time.Microsecond}, 3000, true},
		"decimal text":       {expr.Value{Kind: expr.Text, Text: "12"}, 12, true},
		"text with spaces":   {expr.Value{Kind: expr.Text, Text: " 12\n"}, 12, true},
		"hexadecimal text":   {expr.Value{Kind: expr.Text, Text: "0x1f"}, 31, true},
		"octal text":         {expr.Value{Kind: expr.Text, Text: "0o17"}, 15, true},
		"binary text":        {expr.Value{Kind: expr.Text, Text: "0b101"}, 5, true},
		"text with exponent": {expr.Value{Kind: expr.Text, Text: "1e3"}, 1000, true},
		"text of a fraction": {expr.Value{Kind: expr.Text, Text: "2.75"}, 2, true},
		"text of infinity":   {expr.Value{Kind: expr.Text, Text: "Inf"}, 0, false},
		"text of NaN":        {expr.Value{Kind: expr.Text, Text: "NaN"}, 0, false},
		"empty text":         {expr.Value{Kind: expr.Text}, 0, false},
		"text with a unit":   {expr.Value{Kind: expr.Text, Text: "3s"}, 0, false},
		"time":               {expr.Value{Kind: expr.Time, Time: stagetest.Start}, 0, false},
		"object":             {expr.Value{Kind: expr.Other}, 0, false},
	} {
		if got, ok := asWeight(c.value); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

// TestWeightsAreWholeAndFinite checks every weight that can be read: it is finite, and a stage with it has a place in
// the race.
func TestWeightsAreWholeAndFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := expr.Value{Kind: expr.Number, Number: rapid.Float64().Draw(t, "number")}
		if rapid.Bool().Draw(t, "text") {
			v = expr.Value{Kind: expr.Text, Text: rapid.StringMatching(`[-+0-9.xeE_ ]{0,12}`).Draw(t, "text")}
		}
		got, ok := asWeight(v)
		if ok && (math.IsInf(got, 0) || got != math.Trunc(got)) {
			t.Fatalf("%+v weighs %v", v, got)
		}
		if s := score(rapid.Float64Range(0, 1-1e-16).Draw(t, "draw"), min(max(got, 1), mostWeight)); s < 0 || math.IsNaN(s) || math.IsInf(s, 0) {
			t.Fatalf("%+v has the score %v", v, s)
		}
	})
}

// TestWeightProblems checks the sentence for a weight that cannot be read; it stands in the decision's explanation.
func TestWeightProblems(t *testing.T) {
	jq := func(program string) string { return "weightFrom: {jq: {expression: '" + program + "'}}" }
	const field = "spec.weightFrom.jq.expression: "
	for name, c := range map[string]struct {
		weight, value, want string
		rank                rank
	}{
		"fixed":           {"weight: 3", "", "", rankWeighed},
		"fixed zero":      {"weight: 0", "", "", rankZero},
		"absent, fixed":   {"weight: 3\n  " + jq(".metadata.annotations.none"), "", "", rankWeighed},
		"absent":          {jq(".metadata.annotations.none"), "", "", rankZero},
		"read":            {jq(".metadata.annotations.w"), "5", "", rankWeighed},
		"zero":            {"weight: 3\n  " + jq(".metadata.annotations.w"), "0", "", rankZero},
		"negative":        {"weight: 3\n  " + jq(".metadata.annotations.w"), "-4", "", rankZero},
		"text":            {"weight: 3\n  " + jq(".metadata.annotations.w"), "heavy", field + `"heavy" is not a whole number`, rankBroken},
		"object":          {jq(".metadata"), "", field + "an object or a list is not a whole number", rankBroken},
		"time":            {`weightFrom: {cel: {expression: "Now()"}}`, "", "spec.weightFrom.cel.expression: 2026-03-01T12:00:00Z is not a whole number", rankBroken},
		"error of jq":     {jq(".metadata.name | tonumber"), "", "", rankZero},
		"error of CEL":    {`weightFrom: {cel: {expression: "self.metadata.annotations['none']"}}`, "", "spec.weightFrom.cel.expression: no such key: none", rankBroken},
		"older spelling":  {`weightFrom: {expressionFrom: '.metadata.annotations.w'}`, "x", `spec.weightFrom.expressionFrom: "x" is not a whole number`, rankBroken},
		"far over limits": {jq(".metadata.annotations.w"), "1e300", "", rankWeighed},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, podStage("s", c.weight))
			stage := set.stages(KindPod)[0]
			v := &expr.View{Object: annotatedPod("w", c.value), Now: stagetest.Start}
			if got := stage.weightProblem(v); got != c.want {
				t.Errorf("problem %q, want %q", got, c.want)
			}
			weight, rank := stage.weigh(v)
			if rank != c.rank || weight <= 0 || weight > mostWeight {
				t.Errorf("weight %v of rank %d, want rank %d", weight, rank, c.rank)
			}
			if o := set.Options(stagetest.Start, 1, v.Object, Past{}, Scene{}); len(o) != 1 || o[0].Problem != c.want || o[0].Share != 1 {
				t.Errorf("options: %+v", o)
			}
			if e := set.Explain(v.Object, Scene{}); c.rank != rankBroken && (!e[0].Matches || e[0].Problem != c.want) {
				t.Errorf("explained as %+v", e[0])
			}
		})
	}
}

// TestExpressionsOfAStage checks which expressions a linter sees.
func TestExpressionsOfAStage(t *testing.T) {
	for text, want := range map[string][]string{
		"weight: 1":                            nil,
		"weightFrom: {cel: {expression: '1'}}": {"spec.weightFrom.cel.expression"},
		"delay: {durationMilliseconds: 5}":     nil,
		"weightFrom: {jq: {expression: '1'}}\n  delay: {durationFrom: {expressionFrom: .a}, jitterDurationFrom: {cel: {expression: '5'}}}": {
			"spec.weightFrom.jq.expression", "spec.delay.durationFrom.expressionFrom", "spec.delay.jitterDurationFrom.cel.expression",
		},
		"delay: {jitterDurationFrom: {jq: {expression: .a}}}": {"spec.delay.jitterDurationFrom.jq.expression"},
	} {
		var got []string
		for _, x := range mustCompile(t, podStage("s", text)).stages(KindPod)[0].Expressions() {
			got = append(got, x.Field)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v", text, got)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %s, want %s", text, got[i], want[i])
			}
		}
	}
}

// TestExpressionsThatAreIncomplete checks the errors and warnings for the three ways to write an expression.
func TestExpressionsThatAreIncomplete(t *testing.T) {
	for from, want := range map[string]string{
		"{}":                           "spec.weightFrom: is empty: it needs jq or cel",
		"{jq: {}}":                     "spec.weightFrom.jq.expression: is empty",
		"{cel: {}}":                    "spec.weightFrom.cel.expression: is empty",
		"{jq: {}, expressionFrom: .a}": "spec.weightFrom.jq.expression: is empty",
		"{jq: {expression: '.a |'}}":   `spec.weightFrom.jq.expression: jq ".a |": unexpected EOF`,
		"{expressionFrom: '.a |'}":     `spec.weightFrom.expressionFrom: jq ".a |": unexpected EOF`,
		"{jq: {expression: .a}, expressionFrom: .b}":             "warning: spec.weightFrom.expressionFrom: is ignored because jq is set; remove one of the two",
		"{expressionFrom: .b, cel: {expression: '1'}}":           "warning: spec.weightFrom.cel: is ignored because expressionFrom is set; remove one of the two",
		"{jq: {expression: .a}, cel: {expression: 'not CEL ('}}": "warning: spec.weightFrom.cel: is ignored because jq is set; remove one of the two",
	} {
		set, _, bad := LoadGood(File{Name: "f", Data: []byte(podStage("s", "weightFrom: "+from))})
		got := "nothing"
		switch {
		case len(bad) > 0:
			got = bad[0].Field + ": " + bad[0].Problem
		case len(set.Warnings()) > 0:
			got = "warning: " + set.Warnings()[0].Field + ": " + set.Warnings()[0].Problem
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", from, got, want)
		}
	}
}
