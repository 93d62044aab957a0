package expr_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// widget is the object of TestJQAnswers.
const widget = `
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, labels: {app: web, empty: ""}, annotations: {at: "2026-03-01T12:00:30Z", number: "7"}}
spec: {replicas: 3, weight: 0.5, paused: false, active: true, none: null, big: 9007199254740993, list: [b, a, null, 3, true, {c: d}], nested: {x: {z: [1, [2]]}}}
`

// viewOf returns a view of an object that is written in YAML.
func viewOf(t testing.TB, text string) *expr.View {
	t.Helper()
	o := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &expr.View{Object: o, Now: stagetest.Start}
}

// compiled compiles a jq program that may read the time.
func compiled(t testing.TB, program string) *expr.Query {
	t.Helper()
	q, err := expr.CompileJQ(program, expr.Unstructured, true)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// described formats the first result and why there is none.
func described(v expr.Value, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return v.Describe()
}

// TestJQAnswers: what a program exists as, which texts it equals, and what its first result is.
func TestJQAnswers(t *testing.T) {
	for _, c := range []struct {
		program string
		exists  bool
		in      string // the texts, of those below, that a result equals
		first   string
	}{
		{".metadata.name", true, "w", `"w"`},
		{".metadata.labels.app", true, "web", `"web"`},
		{".metadata.labels.empty", true, "", `""`}, // "" is the empty text, which is in the list as well
		{`.metadata.labels["absent"]`, false, "-", "nothing"},
		{".spec.replicas", true, "3", "the number 3"},
		{".spec.weight", true, "0.5", "the number 0.5"},
		{".spec.paused", true, "false", "false"},
		{".spec.active", true, "true", "true"},
		{".spec.none", false, "-", "nothing"},
		{".spec.list", true, "-", "an object or a list"},
		{".spec.list[]", true, "3 b true", `"b"`},
		{".spec.list[1]", true, "-", `"a"`},
		{".spec.list[2]", false, "-", "nothing"},
		{".spec.list[99]", false, "-", "nothing"},
		{".spec.list[-3]", true, "3", "the number 3"},
		{".spec.nested.x.z[1][0]", true, "2", "the number 2"},
		{".spec.nested", true, "-", "an object or a list"},
		{".spec.list | length", true, "6", "the number 6"},
		{".spec.replicas + 1", true, "4", "the number 4"},
		{".spec.replicas > 2", true, "true", "true"},
		{".spec.replicas as $n | [range($n)] | length == $n", true, "true", "true"},
		{`.metadata.labels.app // "other"`, true, "web", `"web"`},
		{`.metadata.labels.none // "b"`, true, "b", `"b"`},
		{"empty", false, "-", "nothing"},
		{"null", false, "-", "nothing"},
		{"null, null, 3", true, "3", "the number 3"},
		{".metadata.annotations.number | tonumber - 3", true, "4", "the number 4"},
		{".metadata.annotations.at | fromdate", true, "-", "the number 1.77236643e+09"},
		{"now | todate", true, "-", `"2026-03-01T12:00:00Z"`},
		{".spec.replicas | tostring", true, "3", `"3"`},
		{"[]", true, "-", "an object or a list"},
		{"{}", true, "-", "an object or a list"},
		{".absent.deeper.still", false, "-", "nothing"},
		{".absent[]?", false, "-", "nothing"},
		// An error makes the whole result empty.
		{".absent[]", false, "-", "nothing"},
		{".metadata.name, .absent[]", false, "-", "nothing"},
		{".metadata.name.x", false, "-", "error: expected an object but got: string (\"w\")"},
		{`.metadata.annotations.none | tonumber`, false, "-", "nothing"}, // an error about null says that the field is absent
		{`.metadata.name | tonumber`, false, "-", "error: "},
		{`error("mine")`, false, "-", "error: "},
	} {
		t.Run(c.program, func(t *testing.T) {
			q, v := compiled(t, c.program), viewOf(t, widget)
			if q.Exists(v) != c.exists {
				t.Errorf("exists: %t", !c.exists)
			}
			var in []string
			for _, text := range []string{"", "0.5", "2", "3", "4", "6", "b", "false", "true", "w", "web"} {
				if q.In(v, []string{"no", text}) {
					in = append(in, text)
				}
			}
			want := strings.Fields(strings.Trim(c.in, "-"))
			if c.in == "" {
				want = []string{""}
			}
			if d := cmp.Diff(fmt.Sprint(want), fmt.Sprint(in)); d != "" {
				t.Errorf("in (-want +got): %s", d)
			}
			if q.In(v, nil) {
				t.Error("a result is in an empty list")
			}
			got, err := q.WithoutNative().Read(v)
			if text := described(got, err); !strings.HasPrefix(text, c.first) {
				t.Errorf("first: %s, want %s", text, c.first)
			}
			if first := q.First(v); err != nil && first.Kind != expr.None {
				t.Errorf("first: %s after an error", first.Describe())
			}
		})
	}
}

// TestJQDoesNotChange: a program that assigns leaves the object as it is.
func TestJQDoesNotChange(t *testing.T) {
	for _, program := range []string{".spec.replicas = 9", "del(.metadata)", ".spec.list[0] = 1", ".spec.nested.x.z |= map(.)", ".spec.list |= sort", "to_entries | from_entries"} {
		v := viewOf(t, widget)
		before := v.Object.(*unstructured.Unstructured).DeepCopy()
		q := compiled(t, program)
		for range 2 {
			q.Exists(v)
		}
		if d := cmp.Diff(before.Object, v.Object.(*unstructured.Unstructured).Object); d != "" {
			t.Errorf("%s: %s", program, d)
		}
	}
}

// TestJQErrors: a program that does not compile is an error with the program and the reason.
func TestJQErrors(t *testing.T) {
	for program, want := range map[string]string{
		".a.":                             `jq ".a.": `,
		".a | nonsense":                   `jq ".a | nonsense": function not defined: nonsense/0`,
		"$x":                              `jq "$x": variable not defined: $x`,
		"(.a":                             `jq "(.a": `,
		"input":                           `jq "input": input may not be used: there is no further input`,
		"env.HOME":                        `jq "env.HOME": env may not be used: it reads the environment`,
		"$ENV.HOME":                       `jq "$ENV.HOME": $ENV may not be used: it reads the environment`,
		"halt":                            `jq "halt": halt may not be used: it ends the program`,
		"now | localtime":                 `jq "now | localtime": localtime may not be used: it reads the machine's time zone`,
		`import "a" as a; .`:              `jq "import`,
		strings.Repeat(".a|", 8000) + ".": `jq ".a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|.a|."… (24001 bytes): it has 24001 bytes; at most 16384 are allowed`,
	} {
		_, err := expr.CompileJQ(program, expr.Unstructured, true)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s: %.200v, want %s", program, err, want)
		}
	}
	for _, program := range []string{"now", ".a < now", "def f: now; f", `"\(now)"`} {
		_, err := expr.CompileJQ(program, expr.Pod, false)
		if err == nil || !strings.Contains(err.Error(), "now may not be used in a selector: nothing wakes the object when time passes; use a delay") {
			t.Errorf("%s in a selector: %v", program, err)
		}
		if _, err := expr.CompileJQ(program, expr.Pod, true); err != nil {
			t.Errorf("%s in a delay: %v", program, err)
		}
	}
}

// TestNowIsTheDecision: now is the time of the view, as long as the view exists.
func TestNowIsTheDecision(t *testing.T) {
	q := compiled(t, "now")
	for _, at := range []time.Time{stagetest.Start, stagetest.Start.Add(90 * time.Minute), time.Unix(0, 500_000_000)} {
		v := viewOf(t, widget)
		v.Now = at
		want := float64(at.UnixNano()) / float64(time.Second)
		for range 2 {
			if got := q.First(v); got.Kind != expr.Number || got.Number != want {
				t.Errorf("now is %s, want %v", got.Describe(), want)
			}
		}
	}
}

// TestMetadataKeyQuery: the query of one label or annotation answers as the path does, in each form.
func TestMetadataKeyQuery(t *testing.T) {
	pod := stagetest.NewPod()
	pod.Labels, pod.Annotations = map[string]string{"a/b": "c"}, map[string]string{"d": ""}
	for _, c := range []struct {
		which, key string
		exists     bool
		text       string
	}{{"labels", "a/b", true, "c"}, {"labels", "d", false, ""}, {"annotations", "d", true, ""}, {"annotations", "a/b", false, ""}} {
		for form, v := range map[expr.Form]*expr.View{
			expr.Pod:          {Object: pod, Now: stagetest.Start},
			expr.Unstructured: viewOf(t, `{apiVersion: v1, kind: Pod, metadata: {labels: {a/b: c}, annotations: {d: ""}}}`),
		} {
			q := expr.MetadataKey(form, c.which, c.key)
			if q.HasProgram() || q.Interpreted() {
				t.Errorf("%s %s has a program", c.which, c.key)
			}
			if got := q.First(v); q.Exists(v) != c.exists || got.Text != c.text || q.In(v, []string{c.text}) != c.exists {
				t.Errorf("form %d, %s %s: exists %t, %s", form, c.which, c.key, q.Exists(v), got.Describe())
			}
		}
	}
}
