package render

import (
	"errors"
	"fmt"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// rendered renders one expression as a text.
func rendered(t testing.TB, text string, m Moment) (string, error) {
	t.Helper()
	tpl, err := Parse(text, expr.Pod)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	values, err := tpl.Render(m, stagetest.NewPod())
	out, _ := values.(map[string]any)
	s, _ := out["out"].(string)
	return s, err
}

func testMoment(uid string) Moment {
	return Moment{Now: stagetest.Start, Facts: stagetest.Facts{}, Object: stagetest.NewPod(), Chance: Chance{Seed: 1, UID: "u" + "-" + "1", Stage: uid}}
}

// TestBounds: a template that would run or grow for ever ends with an error.
func TestBounds(t *testing.T) {
	for name, text := range map[string]string{
		"range over a number":      `{{ range 1000000000000 }}{{ end }}`,
		"loops in loops":           `{{ range until 5000 }}{{ range until 5000 }}{{ end }}{{ end }}`,
		"recursion":                `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
		"two ways":                 `{{ define "a" }}{{ template "a" . }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
		"doubled text":             `{{ $x := "ab" }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}`,
		"doubled list":             `{{ $x := list 1 }}{{ range until 60 }}{{ $x = concat $x $x }}{{ end }}`,
		"doubled nesting":          `{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}`,
		"a dict that holds itself": `{{ $d := dict "a" 1 }}{{ $_ := set $d "b" $d }}{{ $d }}`,
		"a ring of dicts":          `{{ $d := dict }}{{ $e := dict "d" (list $d) }}{{ $_ := set $d "e" $e }}{{ toJson $d }}`,
		"output":                   `{{ range until 1000 }}{{ printf "%10000d" 1 }}{{ end }}`,
		"repeat":                   `{{ repeat 1000000000 "x" }}`,
		"indent":                   `{{ indent 1000000000 "x" }}`,
		"until":                    `{{ until 1000000000 }}`,
		"until with a step":        `{{ untilStep -9000000000000000000 9000000000000000000 3 }}`,
		"seq":                      `{{ seq 1000000000 }}`,
		"random text":              `{{ randAlpha 1000000000 }}`,
		"join":                     `{{ $s := repeat 100000 "y" }}{{ len (join $s (until 100000)) }}`,
		"replace":                  `{{ $s := repeat 100000 "y" }}{{ len (replace "y" $s $s) }}`,
		"replace between":          `{{ $s := repeat 100000 "y" }}{{ len (replace "" $s $s) }}`,
		"regexReplaceAll":          `{{ $s := repeat 100000 "y" }}{{ len (regexReplaceAll "y" $s $s) }}`,
		"regexReplaceAll groups":   `{{ $s := repeat 100000 "y" }}{{ len (regexReplaceAll "(y*)" $s (repeat 100000 "$1")) }}`,
		"regexReplaceAllLiteral":   `{{ $s := repeat 100000 "y" }}{{ len (regexReplaceAllLiteral "y" $s $s) }}`,
		"printf widths":            `{{ len (printf (repeat 1000 "%[1]1000000d") 1) }}`,
		"printf stars":             `{{ len (printf (repeat 1000 "%[1]*[2]d") 1000000 1) }}`,
		"printf indexes":           `{{ $s := repeat 100000 "y" }}{{ len (printf (repeat 100000 "%[1]s") $s) }}`,
		"wrapWith":                 `{{ $s := repeat 100000 "y" }}{{ len (wrapWith 1 $s $s) }}`,
		"uniq":                     `{{ len (uniq (until 100000)) }}`,
		"without":                  `{{ len (without (until 50000) (until 50000)) }}`,
		"toPrettyJson":             `{{ $x := until 100000 }}{{ range until 190 }}{{ $x = list $x }}{{ end }}{{ len (toPrettyJson $x) }}`,
		"YAML":                     `{{ len (YAML (until 1000) 100000000) }}`,
		"deepEqual in a loop":      `{{ $x := until 100000 }}{{ $y := until 100000 }}{{ range until 10000 }}{{ $_ := deepEqual $x $y }}{{ end }}`,
		"large expressions":        `{{ $s := repeat 1000000 "y" }}{{ range until 100 }}{{ $_ := regexMatch (print . $s) "x" }}{{ end }}`,
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := rendered(t, text, testMoment("s"))
			if err == nil {
				t.Fatal("it ended")
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("not one line: %v", err)
			}
		})
	}
	if out, err := rendered(t, `out: {{ range until 10 }}{{ range until 10 }}x{{ end }}{{ end }}`, testMoment("s")); err != nil || len(out) != 100 {
		t.Errorf("two small loops: %q %v", out, err)
	}
}

// TestChance: random functions draw the same for the same object and stage, and
// something else for every call, stage and time the stage is played.
func TestChance(t *testing.T) {
	shapes := map[string]string{
		`randAlphaNum 12`: `^[A-Za-z0-9]{12}$`, `randAlpha 12`: `^[A-Za-z]{12}$`, `randNumeric 12`: `^[0-9]{12}$`,
		`randAscii 12 | b64enc`: `^.{16}$`, `randBytes 12`: `^.{16}$`, `shuffle "abcdefghijkl"`: `^[a-l]{12}$`,
		`randInt 1000 1000000000`: `^[0-9]{4,9}$`,
		`uuidv4`:                  `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
	}
	for call, shape := range shapes {
		text := "out: {{ " + call + " | quote }}"
		first, err := rendered(t, text, testMoment("a"))
		if err != nil || !regexp.MustCompile(shape).MatchString(first) {
			t.Errorf("%s: %q, %v", call, first, err)
		}
		if again, _ := rendered(t, text, testMoment("a")); again != first {
			t.Errorf("%s: %q, then %q", call, first, again)
		}
		if other, _ := rendered(t, text, testMoment("b")); other == first {
			t.Errorf("%s: the same in another stage", call)
		}
		twice, _ := rendered(t, fmt.Sprintf(`out: {{ eq (%s) (%s) | quote }}`, call, call), testMoment("a"))
		if twice != "false" {
			t.Errorf("%s: twice the same in one template", call)
		}
	}
	for _, bad := range []string{`randInt 5 5`, `randAlpha -1`, `randBytes -1`} {
		if _, err := rendered(t, "out: {{ "+bad+" }}", testMoment("a")); err == nil {
			t.Errorf("%s gives something", bad)
		}
	}
}

// FuzzTemplate: whatever is in a template, it renders or fails, and does so the
// same way again.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		`a: {{ .metadata.name }}`, `{{ range until 9 }}- {{ . }}{{ end }}`, `{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`,
		`a: {{ randAlpha 5 }}`, `a: {{ uuidv4 }}`, `{{ $d := dict }}{{ $_ := set $d "a" $d }}{{ $d }}`, `a: {{ now | date "2006" }}`,
		`{{ repeat 99999999 "x" }}`, `{{ with .status }}{{ toYaml . }}{{ end }}`, `{{ .status | toJson }}`, `{{ fail "x" }}`,
	} {
		f.Add(text)
	}
	files, err := filepath.Glob("../../../stage/builtin/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := Parse(text, expr.Pod)
		if err != nil {
			return
		}
		first, firstErr := tpl.Render(testMoment("s"), stagetest.NewPod(stagetest.Running))
		again, againErr := tpl.Render(testMoment("s"), stagetest.NewPod(stagetest.Running))
		if fmt.Sprint(first) != fmt.Sprint(again) || (firstErr == nil) != (againErr == nil) {
			t.Fatalf("%v %v, then %v %v", first, firstErr, again, againErr)
		}
	})
}

// TestQuickPrice: what reflection does not call has the price and the answer that it has
// when reflection calls it.
func TestQuickPrice(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for i, call := range []struct {
		f    any
		args []any
	}{
		{func() string { return long }, nil},
		{func() (string, error) { return long, nil }, nil},
		{strings.ToUpper, []any{long}},
		{func(a string) (string, error) { return a + a, nil }, []any{long}},
		{quote, []any{long}},
		{quote, []any{[]any{1, long}}},
		{quote, []any{map[string]any{"a": 1}}},
		{func(any) (string, error) { return "", errors.New("no") }, []any{7}},
		{func(a string) ([]string, error) { return []string{a, "", a}, nil }, []any{long}},
		{func(a string, _ bool, _, _, c string) ([]string, error) { return []string{a, c}, nil }, []any{"n", true, long, "", "z"}},
		{func(_ any, a, _ string) string { return a }, []any{[]any{1, 2}, long, "z"}},
	} {
		var quick, slow session
		f := quick.guardedQuickly(call.f)
		if f == nil {
			t.Errorf("%d: %T is not quick", i, call.f)
			continue
		}
		args := make([]reflect.Value, len(call.args))
		for i, a := range call.args {
			args[i] = reflect.ValueOf(a)
		}
		got := reflect.ValueOf(f).Call(args)
		want := reflect.ValueOf(slow.guardedSlowly(call.f, nil)).Call(args)
		if quick.spent != slow.spent || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d: %T costs %d, not %d; %v, %v", i, call.f, quick.spent, slow.spent, got, want)
		}
	}
}
