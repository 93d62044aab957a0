package expr

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
)

// steps formats the steps of a path.
func steps(all []Step) string {
	var words []string
	for _, s := range all {
		switch s.Op {
		case Field:
			words = append(words, "."+s.Name)
		case Iterate:
			words = append(words, "[]")
		case Select:
			is := "="
			if s.Negate {
				is = "!="
			}
			text := s.Text
			if s.truth != noTruth {
				text = map[truthValue]string{isTrue: "<true>", isFalse: "<false>"}[s.truth]
			}
			words = append(words, fmt.Sprintf("?(%s%s%s)", steps(s.Sub), is, text))
		}
	}
	return strings.Join(words, " ")
}

// TestParsePath: which programs run as paths, and as which; the others run as jq.
func TestParsePath(t *testing.T) {
	for program, want := range map[string]string{
		".":                               "",
		".a":                              ".a",
		".a.b.c":                          ".a .b .c",
		".a | .b":                         ".a .b",
		"(.a) | (.b | .c)":                ".a .b .c",
		`."a b"`:                          ".a b",
		`.["a.b/c"]`:                      ".a.b/c",
		`.a["b"].c`:                       ".a .b .c",
		".a[]":                            ".a []",
		".a.[].b":                         ".a [] .b",
		".[]":                             "[]",
		".a[][]":                          ".a [] []",
		`.a[] | select(.b == "c")`:        ".a [] ?(.b=c)",
		`.a[] | select(.b.c != "d")`:      ".a [] ?(.b .c!=d)",
		`.a[] | select(.b == true)`:       ".a [] ?(.b=<true>)",
		`.a[] | select(.b != false)`:      ".a [] ?(.b!=<false>)",
		`.a[] | select(. == "x")`:         ".a [] ?(=x)",
		`select(.a == "b") | .c`:          "?(.a=b) .c",
		`.a[] | select((.b) == "c") | .d`: ".a [] ?(.b=c) .d",
		// No paths.
		".a?": "-", ".a[0]": "-", ".a[1:2]": "-", ".a // .b": "-", ".a, .b": "-", ".a + .b": "-", ".a | length": "-", `"a"`: "-", "1": "-", "..": "-",
		`.a[] | select(.b == 1)`: "-", `.a[] | select(.b == null)`: "-", `.a[] | select(.b[] == "c")`: "-", `.a[] | select("c" == .b)`: "-",
		`.a[] | select(.b < "c")`: "-", `.a[] | select(.b)`: "-", `.a[] | select(.b == "c" and .d == "e")`: "-", `."a\(.b)"`: "-", `.[.a]`: "-", `.["a" + "b"]`: "-",
		"def f: .a; f": "-", ". as $x | $x": "-", "reduce .a[] as $x (0; .)": "-", "if .a then .b else .c end": "-", "try .a": "-", "-.a": "-", "[.a]": "-", "{a: .b}": "-",
	} {
		parsed, err := gojq.Parse(program)
		if err != nil {
			t.Errorf("%s: %v", program, err)
			continue
		}
		got := "-"
		if all, ok := ParsePath(parsed); ok {
			got = steps(all)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
	if _, ok := ParsePath(nil); ok {
		t.Error("no program is a path")
	}
}

// TestSelects: which items of a list a select keeps.
func TestSelects(t *testing.T) {
	for program, want := range map[string]string{
		`select(.type == "Ready")`: "0", `select(.type != "Ready")`: "1 2 3", `select(.type == "")`: "2",
	} {
		parsed, err := gojq.Parse(program)
		if err != nil {
			t.Fatal(err)
		}
		all, ok := ParsePath(parsed)
		if !ok || len(all) != 1 {
			t.Fatalf("%s is no path of one step", program)
		}
		var kept []string
		for i, item := range []any{map[string]any{"type": "Ready"}, map[string]any{"type": "Other"}, map[string]any{"type": ""}, map[string]any{"type": nil}} {
			if all[0].Selects(item) {
				kept = append(kept, fmt.Sprint(i))
			}
		}
		if got := strings.Join(kept, " "); got != want {
			t.Errorf("%s keeps %s, want %s", program, got, want)
		}
	}
}

// TestValueOf: each JSON value, and how a sentence names it.
func TestValueOf(t *testing.T) {
	for want, v := range map[string]any{
		"nothing": nil, `"a\nb"`: "a\nb", "true": true, "false": false, "the number 7": 7, "the number -8": int64(-8), "the number 0.25": 0.25,
		"the number 1e+30": json.Number("1e30"), "the number 1.8446744073709552e+19": new(big.Int).Lsh(big.NewInt(1), 64), "an object or a list": []any{},
	} {
		if got := valueOf(v).Describe(); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := valueOf(map[string]any{}).Describe(); got != "an object or a list" {
		t.Error(got)
	}
	if got := (Value{Kind: Text, Text: strings.Repeat("x", 500)}).Describe(); len(got) > 120 || !strings.HasSuffix(got, "… (500 bytes)") {
		t.Errorf("a long text: %s", got)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if got := (Value{Kind: Time, Time: at}).Describe() + " " + (Value{Kind: Duration, Duration: 90 * time.Second}).Describe(); got != "2026-01-02T03:04:05Z 1m30s" {
		t.Error(got)
	}
}

// TestEquals: a text, and the JSON text of a boolean or a number, equals; nothing else does.
func TestEquals(t *testing.T) {
	for _, c := range []struct {
		v    any
		text string
		want bool
	}{
		{"a", "a", true}, {"a", "A", false}, {"", "", true}, {"3", "3", true},
		{true, "true", true}, {true, "True", false}, {false, "false", true}, {false, "", false},
		{3, "3", true}, {3, "3.0", false}, {int64(-3), "-3", true}, {3.0, "3", true}, {0.5, "0.5", true}, {0.5, ".5", false},
		{1e21, "1e+21", true}, {1e-7, "1e-7", true}, {1e-7, "1e-07", false}, {math.NaN(), "null", true},
		{new(big.Int).Lsh(big.NewInt(1), 70), "1180591620717411303424", true},
		{nil, "null", false}, {nil, "", false}, {[]any{}, "[]", false}, {map[string]any{}, "{}", false},
	} {
		if equals(c.v, c.text) != c.want {
			t.Errorf("%#v equals %q: %t", c.v, c.text, !c.want)
		}
	}
}

// TestNumbersAsJSON: a float is written as encoding/json writes it, so that a selector compares with what users see.
func TestNumbersAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		if rapid.Bool().Draw(t, "power of ten") {
			f = math.Pow10(rapid.IntRange(-30, 30).Draw(t, "exponent")) * float64(rapid.IntRange(-9, 9).Draw(t, "digit"))
		}
		want, err := json.Marshal(f)
		if err != nil {
			return // infinite
		}
		if got := string(appendFloat(nil, f)); got != string(want) {
			t.Fatalf("%v: %s, want %s", f, got, want)
		}
	})
}

// TestForJQ: jq gets a copy, in which integers are of the type that it knows.
func TestForJQ(t *testing.T) {
	now := metav1.Unix(0, 0)
	in := map[string]any{"n": int64(7), "list": []any{int64(1), "a", nil, 0.5, true, map[string]any{"deep": int64(2)}}, "q": resource.MustParse("2"), "t": &now}
	want := map[string]any{"n": 7, "list": []any{1, "a", nil, 0.5, true, map[string]any{"deep": 2}}, "q": "2", "t": "1970-01-01T00:00:00Z"}
	out := forJQ(in)
	if d := cmp.Diff(want, out); d != "" {
		t.Error(d)
	}
	out.(map[string]any)["list"].([]any)[0] = "changed"
	if in["list"].([]any)[0] != int64(1) {
		t.Error("the object is shared")
	}
	if toJSON(func() {}) != nil {
		t.Error("a function has a JSON form")
	}
}

// TestDrawValues: the numbers stay the same from release to release; otherwise recorded runs would not replay.
func TestDrawValues(t *testing.T) {
	for _, c := range []struct {
		seed   uint64
		uid    types.UID
		stage  string
		played uint64
		why    Purpose
		want   string
	}{
		{0, "", "", 0, ForChoice, "0.271746794507855"},
		{1, "uid-1", "pod-ready", 0, ForDelay, "0.256799580121051"},
		{1, "uid-1", "pod-ready", 1, ForDelay, "0.763922475053518"},
		{1 << 63, "uid-2", "pod-complete", 7, ForExpression, "0.211837433163290"},
	} {
		if got := fmt.Sprintf("%.15f", Draw(c.seed, c.uid, c.stage, c.played, c.why)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestDrawIsUniform: the numbers of many objects fill [0, 1) evenly, for each purpose, and purposes do not agree.
func TestDrawIsUniform(t *testing.T) {
	const draws, bins = 20_000, 20
	equal := 0
	for why := ForChoice; why <= ForTemplate; why++ {
		var count [bins]int
		for n := range draws {
			f := Draw(7, types.UID(fmt.Sprintf("uid-%d", n)), "s", 0, why)
			if f < 0 || f >= 1 {
				t.Fatalf("drew %v", f)
			}
			count[int(f*bins)]++
			if f == Draw(7, types.UID(fmt.Sprintf("uid-%d", n)), "s", 0, why%ForTemplate+1) {
				equal++
			}
		}
		for bin, n := range count {
			if math.Abs(float64(n)-draws/bins) > 6*math.Sqrt(draws/bins) {
				t.Errorf("purpose %d: %d of %d numbers are in bin %d of %d", why, n, draws, bin, bins)
			}
		}
	}
	if equal > 0 {
		t.Errorf("%d numbers are the same for two purposes", equal)
	}
}

// TestDrawSeparatesKeys: the object's UID and the stage's name do not run into each other.
func TestDrawSeparatesKeys(t *testing.T) {
	if Draw(1, "ab", "c", 0, ForChoice) == Draw(1, "a", "bc", 0, ForChoice) {
		t.Error("UID ab with stage c draws as UID a with stage bc")
	}
}

// TestWeigh: the weight of a value counts what is shared as often as it is reached, and stops above the limit.
func TestWeigh(t *testing.T) {
	shared := []any{"a", "b"}
	for _, c := range []struct {
		v    any
		want int
	}{
		{nil, 1}, {true, 1}, {3, 1}, {"", 1}, {strings.Repeat("x", 160), 11}, {[]any{}, 1}, {shared, 3}, {[]any{shared, shared}, 7},
		{map[string]any{"k": "v"}, 3}, {new(big.Int).Lsh(big.NewInt(1), 800), 101},
	} {
		if got := weigh(c.v, 1000, 0); got != c.want {
			t.Errorf("%v weighs %d, want %d", c.v, got, c.want)
		}
	}
	huge := any([]any{1})
	for range 60 {
		huge = []any{huge, huge}
	}
	if got := weigh(huge, 1000, 0); got <= 1000 || got > 5000 {
		t.Errorf("2^60 values weigh %d with a limit of 1000", got)
	}
	deep := any(nil)
	for range limit.Depth + 5 {
		deep = []any{deep}
	}
	if got := weigh(deep, 1000, 0); got <= 1000 {
		t.Errorf("a value that is nested too deeply weighs %d", got)
	}
}

// TestSpend: once a run has spent too much, each guard fails, with the first reason.
func TestSpend(t *testing.T) {
	s := &jqSpent{left: 10}
	if err := s.spend(10); err != nil {
		t.Error(err)
	}
	first := s.spend(1)
	if first == nil || s.spend(0) != first || s.guard("call", "x") != first {
		t.Errorf("%v", first)
	}
	for kind, args := range map[string][]any{
		"multiply": {strings.Repeat("x", 100), 1e9}, "subtract": {slices.Repeat([]any{1}, 3000), slices.Repeat([]any{1}, 3000)},
		"index": {}, "path": {[]any{limit.Items + 1}},
	} {
		s, input := &jqSpent{left: mostWork}, any(float64(limit.Items)+1)
		if kind != "index" {
			input = "x"
		}
		if err := s.guard(kind, input, args...); err == nil {
			t.Errorf("%s is not too much", kind)
		}
	}
}

// TestTooDeep: a path that leads too far along a list, or too deep.
func TestTooDeep(t *testing.T) {
	long := slices.Repeat([]any{"a"}, limit.Depth+1)
	for want, paths := range map[bool][]any{
		false: {nil, []any{}, []any{"a", 3}, []any{[]any{"a"}, []any{"b", 2}}, []any{map[string]any{"start": 1, "end": 2}}, slices.Repeat([]any{[]any{"a"}}, 500)},
		true:  {[]any{limit.Items + 1}, []any{-limit.Items - 1}, long, []any{[]any{"a", 1e12}}, []any{map[string]any{"start": 1, "end": 1e12}}},
	} {
		for _, path := range paths {
			if tooDeep(path) != want {
				t.Errorf("%.80v: %t", fmt.Sprint(path), !want)
			}
		}
	}
}

// TestStepBudget: the context of a run ends after a number of questions, never by a clock.
func TestStepBudget(t *testing.T) {
	s := &stepBudget{left: 2}
	for range 2 {
		if s.Done() != nil || s.Err() != nil {
			t.Error("ended too early")
		}
	}
	select {
	case <-s.Done():
	default:
		t.Error("not ended")
	}
	if _, timed := s.Deadline(); timed || s.Err() == nil || s.Value("x") != nil {
		t.Errorf("%v", s.Err())
	}
}

// TestHasOwnJSON: the types whose JSON is not that of their fields.
func TestHasOwnJSON(t *testing.T) {
	for want, types := range map[bool][]reflect.Type{
		true:  {reflect.TypeFor[metav1.Time](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[*resource.Quantity](), reflect.TypeFor[metav1.FieldsV1]()},
		false: {reflect.TypeFor[string](), reflect.TypeFor[corev1.Pod](), reflect.TypeFor[[]string](), reflect.TypeFor[map[string]string]()},
	} {
		for _, of := range types {
			if HasOwnJSON(of) != want {
				t.Errorf("%s: %t", of, !want)
			}
		}
	}
	if Deref(reflect.TypeFor[***string]()) != reflect.TypeFor[string]() {
		t.Error("Deref leaves a pointer")
	}
}

// TestPlanTyped: a path on a struct ends where its JSON is known, and follows embedded structs.
func TestPlanTyped(t *testing.T) {
	for path, want := range map[string]bool{
		".metadata.name": true, ".spec.nodeName": true, ".spec": true, ".status.startTime": true, ".spec.containers[].name": true, ".metadata.labels.a": true,
		".spec.hostNetwork": true, ".spec.containers[].livenessProbe.httpGet.path": true, ".spec.volumes[].emptyDir.medium": true,
		".spec.absent": false, ".spec.absent.deeper": false, ".status.phase[]": false, ".spec.containers[].resources.limits": true, ".spec.containers[].resources.limits.cpu": false,
		".metadata.labels.a.b": false, ".spec.containers[].livenessProbe.httpGet.port": false, ".spec.containers.name": false,
	} {
		parsed, err := gojq.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		all, ok := ParsePath(parsed)
		if !ok {
			t.Fatalf("%s is no path", path)
		}
		if _, ok := planTyped(reflect.TypeFor[corev1.Pod](), all); ok != want {
			t.Errorf("%s: %t, want %t", path, ok, want)
		}
	}
}

// TestLongPath: the steps of the longest program that is allowed are parsed in linear time.
func TestLongPath(t *testing.T) {
	count := mostProgram/3 - 1
	parsed, err := gojq.Parse(strings.Repeat(".a|", count) + ".")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1, func() { ParsePath(parsed) }); n > 100 {
		t.Errorf("%v allocations for %d steps", n, count)
	}
	if all, ok := ParsePath(parsed); !ok || len(all) != count {
		t.Errorf("%d steps, want %d", len(all), count)
	}
}
