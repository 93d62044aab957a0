package expr

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// widgetWith is an object with a value at .v.
func widgetWith(value any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "uid": "u"}, "v": value,
	}}
}

// hungry are programs that would run for hours or use up the memory.
var hungry = []string{
	`reduce range(60) as $i ([1]; [.,.])`,
	`reduce range(60) as $i ([1]; [.,.]) | tojson`,
	`reduce range(60) as $i ({}; {a: ., b: .}) | tostring`,
	`reduce range(60) as $i ("ab"; . + .)`,
	`reduce range(60) as $i ("ab"; . += .)`,
	`reduce range(60) as $i ([1]; . + .)`,
	`reduce range(60) as $i ("ab"; "\(.)\(.)")`,
	`reduce range(60) as $i ("ab"; @base64 "\(.)\(.)")`,
	`reduce range(60) as $i ([1]; .[0] = . | .[1] = .) | tojson`,
	`reduce range(60) as $i ({a: 1}; .b = . | .c = .) | . == 1, tojson`,
	`reduce range(60) as $i ([1]; [.,.]) | . == [1], . < [2]`,
	`def f: [.,.]; def g($n): if $n == 0 then . else f | g($n - 1) end; 1 | g(60)`,
	`"x" * 2000000000`,
	`2000000000 * "x"`,
	`{a: "x"} | .a *= 2000000000`,
	`[range(100000)] | map("xxxxxxxxxxxxxxxx" * 100) | join("y" * 100000)`,
	`[range(100000) | "a"] | join("y" * 100000)`,
	`"a" * 100000 | gsub("a"; "x" * 1000)`,
	`"a" * 100000 | gsub(""; "x" * 1000)`,
	`reduce range(1000) as $i ("a" * 10000; gsub("a"; "aa"))`,
	`[range(50000)] as $a | [range(50000)] | . - $a`,
	`[range(50000)] as $a | [range(50000) + 1000000] | contains($a)`,
	`[range(50000)] as $a | $a | index([1, 2])` + strings.Repeat(` | tojson | fromjson`, 20) + ` | [range(100000)] | indices([range(50000)])`,
	`[[range(100000)], (range(10000) | [])] | transpose`,
	`.[2000000000] = 1`, `[] | .[2000000000] = 1`, `[] | setpath([2000000000]; 1)`, `null | setpath([range(100000) | 0]; 1)`,
	`[] | .[1000000 * 1000] |= 1`, `[] | .[(1e9)] = 1`,
	`reduce range(30000) as $i ({}; .["k\($i)"] = $i)`,
	`reduce range(60) as $i (3; . * .)`,
	`reduce range(40) as $i (3; . * . | . + 1)`,
	`[range(1000000)] | map([.]) | group_by(.)`,
	`repeat(1)`, `[repeat(1)]`, `def f: f; f`, `last(repeat(1))`, `[limit(1e9; repeat("x"))]`,
	`try ("x" * 2000000000) catch "y"`, `("x" * 2000000000)? // "y"`,
	`[.. | (., ., .) | [., .]] | tojson * 100000`,
	`"a" * 200000 | [match("";"g")] | length`,
	`[range(1000) | [range(1000)]] | [.[] as $a | .[] as $b | $a == $b] | length`,
}

// TestHungry: a program that does too much ends soon, whatever it catches, and says so.
func TestHungry(t *testing.T) {
	for _, text := range hungry {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			q, err := CompileJQ(text, Unstructured, true)
			if err != nil {
				t.Fatal(err)
			}
			v := View{Object: widgetWith(strings.Repeat("x", 1000)), Now: stagetest.Start}
			began := time.Now()
			out, err := q.Results(&v)
			if err == nil || v.Exceeded == nil || !strings.Contains(err.Error(), "does too much") {
				t.Errorf("%d results, %v", len(out), err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestGuardsChangeNothing: a guarded program gives what the same program gives without
// guards, in the same order, paths and errors included.
func TestGuardsChangeNothing(t *testing.T) {
	input := map[string]any{
		"s": "a-b-c", "n": 7, "f": 1.5, "b": true, "z": nil, "list": []any{3, 1, 2, 1}, "words": []any{"x", "yy", ""},
		"rows": []any{[]any{1, 2}, []any{3}}, "m": map[string]any{"k": "v", "l": map[string]any{"d": 1}}, "t": "2026-03-01T12:00:00Z",
	}
	for _, text := range []string{
		`(1,2) + (10,20)`, `(1,2) * (10,20)`, `(5,7) - (1,2)`, `[(1,2) < (2,1)]`, `(4,2) / (1,2)`, `(7,9) % (2,5)`, `.s / "-"`, `"ab" * 3`, `0 * "a"`, `.m * {l: {e: 2}}`,
		`[1,2,3,2] - [2]`, `.a.b.c`, `.list | sort`, `.list | map(. + 1) | add`, `.words | join(",", ";")`, `.words | join("-")`, `.s | split("-")`,
		`.s | split("-"; null)`, `.s | test("B"; "i")`, `.s | [match("[a-c]"; "g").string]`, `.s | sub("-"; "+")`, `.s | gsub("(?<x>[a-c])"; "<\(.x)>")`,
		`.s | gsub("-"; "+", "*")`, `.s | [scan("[ab]")]`, `.s | capture("(?<first>.)")`, `.s | [splits("-")]`, `.m | to_entries`, `.m | with_entries(.value |= tostring)`,
		`.m | keys, length`, `.m | has("k", "q")`, `.list | contains([1], [9])`, `.list | index(1)`, `.list | indices(1)`, `.list | .[1:3]`, `.list | .[-1]`, `.list[.list[1]]`,
		`.list | first, last, nth(1)`, `.rows | transpose`, `.rows | flatten`, `.rows | flatten(1)`, `del(.m.k) | .m`, `del(.list[0, 2]) | .list`, `[paths]`, `[paths(type == "number")]`,
		`path(.m | .k)`, `path(.m.l.d)`, `[path(..)]`, `path(getpath(["m", "k"]))`, `path(first(.list[]))`, `path(.list | select(length > 1) | .[0])`, `path(.list[1 + 1])`,
		`.m.k = "w" | .m`, `.list[1] = 9 | .list`, `.n += 1 | .n`, `.n -= (1, 2) | .n`, `.n *= 2 | .n`, `.n /= 2 | .n`, `.n %= 4 | .n`, `.z //= 3 | .z`, `.m.l |= {x: .d} | .m`,
		`.list[] |= empty | .list`, `(.list[] | select(. > 1)) |= . * 10 | .list`, `setpath(["m", "k"]; 1, 2) | .m.k`, `setpath((["n"], ["f"]); (1, 2)) | [.n, .f]`, `getpath(["m", "k"], ["n"])`,
		`delpaths([["m"], ["list"]]) | keys`, `pick(.m.k)`, `"\(.n) and \(.s)"`, `@base64 "x\(.s)"`, `@json`, `.s | @base64, @uri, @html`, `.list | @csv`, `.list | tojson | fromjson`,
		`.t | fromdate`, `.t | fromdate | todate`, `.t | strptime("%Y-%m-%dT%H:%M:%SZ") | mktime`, `0 | strftime("%Y")`, `now | type`,
		`if .n > 3 then "big" elif .n == .f then 1 else "small" end`, `try error("x") catch .`, `.a?`, `.s | .x?`, `.q // "none"`, `[.list[] as $x | $x * $x]`, `reduce .list[] as $x (0; . + $x)`,
		`[foreach .list[] as $x (0; . + $x; [$x, .])]`, `[limit(2; .list[])]`, `[range(0; 10; 3)]`, `def f(g): [g, g]; f(.n)`, `def join(x): 1 + x; join(2)`, `def f: def g: 3; g + g; f * 2`,
		`[.[] | type]`, `any(.list[]; . == 3)`, `all(.list[]; . > 0)`, `.list | min, max, unique, reverse`, `.rows | map(length)`, `.list | group_by(. % 2)`, `.list | sort_by(-.)`,
		`.words | map(ascii_upcase)`, `.s | ltrimstr("a"), rtrimstr("c"), startswith("a"), endswith("a")`, `.s | explode | implode`, `[.m | .. | numbers]`, `.list | tostring`, `[.list, .rows] | tojson`,
		`{a: .n, b: (1, 2)}`, `{(.s): 1, "x\(.n)": 2}`, `[.list[] | {v: .}]`, `. as {n: $x, m: {k: $y}} | [$x, $y]`, `. as [$x] ?// {n: $x} | $x`, `label $out | .list[] | if . == 2 then ., break $out else . end`,
		`.list | bsearch(2)`, `.n | -., tojson, tostring`, `[.list[] | if . > 1 then . else empty end]`, `input_line_number`, `.s | ascii_downcase | length`, `[splits("x")]`, `.m.k | length`, `[.n == .f, .n != .f, .s <= .t]`,
		`.list | IN([3, 1, 2, 1])`, `.n as $x | def f: $x + 1; f`, `walk(if type == "number" then . + 1 else . end) | .list`, `[.list | combinations?]`, `env | length`, `.rows | map(add)`, `.m | map_values(type)`,
	} {
		run := func(guards bool) (out []any, fails string) {
			parsed, err := gojq.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if guards {
				if err := guarded(parsed, text); err != nil {
					return nil, err.Error()
				}
			}
			code, err := gojq.Compile(parsed, gojq.WithVariables([]string{jqWork}), gojq.WithFunction(jqGuard, 2, 4, guardFunction))
			if err != nil {
				return nil, err.Error()
			}
			iter := code.Run(forJQ(input), &jqSpent{left: mostWork})
			for {
				result, ok := iter.Next()
				if err, failed := result.(error); failed {
					return out, err.Error()
				}
				if !ok {
					return out, ""
				}
				data, _ := json.Marshal(result)
				out = append(out, string(data))
			}
		}
		want, wantErr := run(false)
		got, gotErr := run(true)
		if strings.Contains(gotErr, "nothing bounds what it costs") {
			continue
		}
		if !reflect.DeepEqual(got, want) || gotErr != wantErr {
			t.Errorf("%s: %v %s, without guards %v %s", text, got, gotErr, want, wantErr)
		}
	}
}

// TestImpureFunctions: a program that reads more than the object does not compile.
func TestImpureFunctions(t *testing.T) {
	for name, why := range impure {
		_, err := CompileJQ(name, Pod, true)
		if err == nil || !strings.Contains(err.Error(), name+" may not be used: "+why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
