package expr

import (
	"strings"
	"testing"

	"github.com/itchyny/gojq"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
)

// rewritten returns a program with its guards.
func rewritten(t *testing.T, program string) (string, error) {
	t.Helper()
	parsed, err := gojq.Parse(program)
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	err = guarded(parsed, program)
	return parsed.String(), err
}

// TestOwnFunctionsDoNotDisableGuards checks that a program cannot avoid the guard of a function of jq by a definition of
// the same name: a definition counts only where it is in scope, and only for its number of arguments.
func TestOwnFunctionsDoNotDisableGuards(t *testing.T) {
	const guard = `__guard("join"`
	for program, want := range map[string]int{
		`join("x")`:                                            1,
		`def join: 1; join("x")`:                               1, // another number of arguments
		`def f(join): 1; join("x")`:                            1,
		`def f: def join($x): 1; join("y"); join("x")`:         1, // out of scope
		`def f: join("x"); def join($x): 1; f`:                 1, // before the definition
		`(def join($x): 1; join("y")) | join("x")`:             1,
		`[def join($x): 1; join("y")] | map(join("x"))`:        1,
		`if (def join($x): 1; true) then join("x") else 1 end`: 1,
		`def join($x): 1; join("x")`:                           0,
		`def join($x): join("y"); join("x")`:                   0, // calls itself
		`def f(join): join; f(.a)`:                             0,
		`def f($join): $join + join; f(.a)`:                    0,
		`def join($x): 1; def f: join("x"); f`:                 0,
		`def join($x): 1; [.[] | {a: join("x")}]`:              0,
		`reduce .[] as $x (0; join("x"))`:                      1,
		`"\(join("x"))"`:                                       1,
		`.[join("x")]`:                                         1,
		`try join("x") catch join("y")`:                        2,
		`{(join("a")): join("b")}`:                             2,
		`label $out | join("x"), break $out`:                   1,
	} {
		text, err := rewritten(t, program)
		if got := strings.Count(text, guard); err != nil || got != want {
			t.Errorf("%s: %d guards, want %d; %v\n%s", program, got, want, err, text)
		}
	}
}

// TestFunctionsWithoutABound checks that a function whose cost nothing bounds is rejected where it is jq's own, and
// accepted where the program defines it.
func TestFunctionsWithoutABound(t *testing.T) {
	for program, rejected := range map[string]bool{
		`tostream`: true, `fromstream(1)`: true, `combinations`: true, `INDEX(.a)`: true, `[.[] | truncate_stream(1)]`: true,
		`def tostream: 1; tostream`: false, `def f: def tostream: 1; tostream; tostream`: true, `def tostream(f): 1; tostream`: true,
		`"tostream"`: false, `.tostream`: false, `{tostream: 1}`: false, `. as $tostream | $tostream`: false,
	} {
		_, err := rewritten(t, program)
		if (err != nil) != rejected {
			t.Errorf("%s: %v", program, err)
		}
		if err != nil && !strings.HasSuffix(err.Error(), " may not be used: nothing bounds what it costs") {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// TestNamesOfTheGuardsAreReserved checks that a program cannot call a guard, and cannot read the variables of the
// guards or the time by their internal names.
func TestNamesOfTheGuardsAreReserved(t *testing.T) {
	for program, name := range map[string]string{
		`__guard("call"; 1)`: "__guard", `$__work`: "$__work", `. as $__left | 1`: "$__left", `. as {a: $__right} | 1`: "$__right",
		`$__now`: "$__now", `$__now > 5`: "$__now", `"$__now"`: "$__now", `def f($__work): 1; f(2)`: "$__work",
	} {
		for _, mayReadNow := range []bool{false, true} {
			_, err := CompileJQ(program, Unstructured, mayReadNow)
			if err == nil || !strings.HasSuffix(err.Error(), ": "+name+" may not be used") {
				t.Errorf("%s: %v", program, err)
			}
		}
	}
}

// TestGuardOfAnotherRun checks that a guard without the work of a run is an error and does not panic.
func TestGuardOfAnotherRun(t *testing.T) {
	got := guardFunction("input", []any{"call", nil})
	if err, ok := got.(error); !ok || err.Error() != "__guard is not for programs" {
		t.Errorf("got %v", got)
	}
	work := &jqSpent{left: 10}
	if got := guardFunction("input", []any{"call", work}); got != "input" || work.left >= 10 {
		t.Errorf("got %v, %d left", got, work.left)
	}
	work.left = 0
	if _, ok := guardFunction("input", []any{"call", work}).(error); !ok {
		t.Error("a run without work left goes on")
	}
}

// TestCostOfEachGuard checks which inputs each kind of guard lets pass: the cost grows with what the function may make
// of its arguments, not only with their size.
func TestCostOfEachGuard(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	list := func(n int) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = i
		}
		return out
	}
	for name, c := range map[string]struct {
		kind  string
		input any
		args  []any
		over  bool
	}{
		"a sum of texts":                   {"operator", nil, []any{text(1 << 20), text(1 << 20)}, false},
		"a sum of huge texts":              {"operator", nil, []any{text(1 << 25), text(1 << 25)}, true},
		"a product of numbers":             {"multiply", nil, []any{3, 4}, false},
		"a repeated text":                  {"multiply", nil, []any{text(100), 1000}, false},
		"a text repeated too often":        {"multiply", nil, []any{text(100), 1e9}, true},
		"the same, the other way round":    {"multiply", nil, []any{1e9, text(100)}, true},
		"a text repeated negatively":       {"multiply", nil, []any{text(100), -1e9}, false},
		"a difference of lists":            {"subtract", nil, []any{list(100), list(100)}, false},
		"a difference of long lists":       {"subtract", nil, []any{list(5000), list(5000)}, true},
		"contains of texts":                {"contains", text(1 << 16), []any{text(1 << 16)}, false},
		"contains of long lists":           {"contains", list(5000), []any{list(5000)}, true},
		"join of short texts":              {"join", list(1000), []any{","}, false},
		"join with a long text":            {"join", list(1000), []any{text(1 << 17)}, true},
		"transpose of a square":            {"transpose", []any{list(100), list(100)}, nil, false},
		"transpose of one long row":        {"transpose", append([]any{list(100000)}, list(100)...), nil, true},
		"unique_by of a short list":        {"square", list(1000), nil, false},
		"unique_by of a long list":         {"square", list(50000), nil, true},
		"a match in a text":                {"regexp", text(1000), []any{"x"}, false},
		"a match in a huge text":           {"regexp", text(1 << 18), []any{"x"}, true},
		"a replacement in a text":          {"replace", text(1000), []any{"x"}, false},
		"a replacement in a long text":     {"replace", text(1 << 15), []any{"x"}, true},
		"a format":                         {"format", 1, []any{"%Y"}, false},
		"a long format":                    {"format", 1, []any{text(1 << 22)}, true},
		"a path":                           {"path", map[string]any{}, []any{[]any{"a", 5}}, false},
		"a path far along a list":          {"path", []any{}, []any{[]any{200000}}, true},
		"a path far before a list":         {"path", []any{}, []any{[]any{-200000}}, true},
		"a path of a far slice":            {"path", []any{}, []any{[]any{map[string]any{"start": 0, "end": 200000}}}, true},
		"a place in a list":                {"index", 99999, nil, false},
		"a far place in a list":            {"index", 100001.0, nil, true},
		"a key":                            {"index", "key", nil, false},
		"a call":                           {"call", list(100), []any{text(100)}, false},
		"a call with a huge argument":      {"call", nil, []any{text(1 << 26)}, true},
		"a replacement that grows":         {"grow", text(1 << 26), nil, true},
		"a replacement that does not grow": {"grow", 7, nil, false},
	} {
		work := &jqSpent{left: mostWork}
		err := work.guard(c.kind, c.input, c.args...)
		if (err != nil) != c.over {
			t.Errorf("%s: over %v, want %v; %d of %d left", name, err != nil, c.over, work.left, mostWork)
		}
		if err == nil && work.left >= mostWork {
			t.Errorf("%s costs nothing", name)
		}
		if err != nil && work.guard("call", nil) == nil {
			t.Errorf("%s: the next guard passes", name)
		}
	}
}

// TestGuardsLeaveAnswersAlone checks programs that define functions with the names of jq's own.
func TestGuardsLeaveAnswersAlone(t *testing.T) {
	for program, want := range map[string]string{
		`def length: 7; [1] | length`:                                      "7",
		`def f(length): [1, 2] | length; f(9)`:                             "9",
		`def f($length): length; f(9)`:                                     "9",
		`def join(a): a; join("x")`:                                        "x",
		`def join: "own"; ["a", "b"] | join, join("-")`:                    "own a-b",
		`def f: def join($x): "own"; join("-"); ["a", "b"] | f, join("-")`: "own a-b",
		`def add(f): f; {a: 1} | (add(.a) |= 5) | .a`:                      "5",
		`def f: 1; def g: f + 1; def f: 10; f, g`:                          "10 2",
		`def fac: if . < 2 then 1 else . * (. - 1 | fac) end; 5 | fac`:     "120",
	} {
		q, err := CompileJQ(program, Unstructured, true)
		if err != nil {
			t.Errorf("%s: %v", program, err)
			continue
		}
		out, err := q.Results(&View{Object: widgetWith("x"), Now: stagetest.Start})
		var got []string
		for _, v := range out {
			value := valueOf(v)
			got = append(got, strings.Trim(strings.TrimPrefix(value.Describe(), "the number "), `"`))
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s: %q, want %q; %v", program, got, want, err)
		}
	}
}
