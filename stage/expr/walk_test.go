package expr

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Inner and sample have fields of each kind that the API types have.
type Inner struct {
	Name     string  `json:"name"`
	Reason   string  `json:"reason,omitempty"`
	Ready    bool    `json:"ready"`
	Started  *bool   `json:"started,omitempty"`
	Count    int32   `json:"count,omitempty"`
	Exit     *int64  `json:"exit,omitempty"`
	Children []Inner `json:"children,omitempty"`
}

type embedded struct {
	Kind string `json:"kind,omitempty"`
}

type sample struct {
	embedded `json:",inline"`
	Phase    string            `json:"phase,omitempty"`
	Always   string            `json:"always"`
	Labels   map[string]string `json:"labels,omitempty"`
	Items    []Inner           `json:"items"`
	One      *Inner            `json:"one,omitempty"`
	Zero     Inner             `json:"zero,omitzero"`
	At       metav1.Time       `json:"at,omitempty"`
	Until    *metav1.Time      `json:"until,omitempty"`
	Enabled  *bool             `json:"enabled"`
}

// samplePaths are paths on a sample.
var samplePaths = []string{
	".kind", ".phase", ".always", ".labels", ".labels.a", `.labels["b/c"]`, ".items", ".items[]", ".items[].name", ".items[].reason", ".items[].ready",
	".items[].started", ".items[].count", ".items[].exit", ".items[].children", ".items[].children[].name", ".one", ".one.name", ".one.reason",
	".one.children[].ready", ".zero", ".zero.name", ".at", ".until", ".enabled",
	`.items[] | select(.name == "x") | .reason`, `.items[] | select(.name != "x") | .count`, `.items[] | select(.ready == true) | .name`,
	`.items[] | select(.started == false) | .name`, `.items[] | select(.started != true) | .exit`, `.items[] | select(.reason == "") | .name`,
	`.one | select(.name == "y") | .ready`, `.items[] | .children[] | select(.ready == false) | .count`,
}

func drawInner(t *rapid.T, depth int) Inner {
	out := Inner{
		Name: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "name"), Reason: rapid.SampledFrom([]string{"", "Because"}).Draw(t, "reason"),
		Ready: rapid.Bool().Draw(t, "ready"), Count: int32(rapid.IntRange(0, 2).Draw(t, "count")),
	}
	if rapid.Bool().Draw(t, "has started") {
		v := rapid.Bool().Draw(t, "started")
		out.Started = &v
	}
	if rapid.Bool().Draw(t, "has exit") {
		v := int64(rapid.IntRange(-1, 1).Draw(t, "exit"))
		out.Exit = &v
	}
	for range rapid.IntRange(0, depth).Draw(t, "children") {
		out.Children = append(out.Children, drawInner(t, depth-1))
	}
	return out
}

func drawSample(t *rapid.T) *sample {
	s := &sample{
		embedded: embedded{Kind: rapid.SampledFrom([]string{"", "Sample"}).Draw(t, "kind")},
		Phase:    rapid.SampledFrom([]string{"", "Running"}).Draw(t, "phase"), Always: rapid.SampledFrom([]string{"", "x"}).Draw(t, "always"),
	}
	if rapid.Bool().Draw(t, "labels") {
		s.Labels = map[string]string{"a": "x", "b/c": ""}
	}
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		s.Items = append(s.Items, drawInner(t, 2))
	}
	if rapid.Bool().Draw(t, "empty list") && s.Items == nil {
		s.Items = []Inner{}
	}
	if rapid.Bool().Draw(t, "one") {
		one := drawInner(t, 1)
		s.One = &one
	}
	if rapid.Bool().Draw(t, "zero") {
		s.Zero = drawInner(t, 0)
	}
	if rapid.Bool().Draw(t, "at") {
		s.At = metav1.Unix(1_700_000_000, 0)
	}
	if rapid.Bool().Draw(t, "until") {
		s.Until = &metav1.Time{Time: time.Unix(1_700_000_100, 0)}
	}
	if rapid.Bool().Draw(t, "enabled") {
		v := rapid.Bool().Draw(t, "is enabled")
		s.Enabled = &v
	}
	return s
}

// found formats what a walk has found.
func found(t tally) string {
	if t.failed {
		return "failed"
	}
	first := t.first
	if first.Kind == Time {
		first = Value{Kind: Text, Text: first.Time.UTC().Format(time.RFC3339)}
	}
	return fmt.Sprintf("exists %t, first %s, found %t", t.exists, first.Describe(), t.found)
}

// TestWalksAgree: a path finds the same in a Go struct and in the struct's JSON, for each kind of field and tag:
// pointers, omitempty, omitzero, embedded structs, times and maps.
func TestWalksAgree(t *testing.T) {
	for _, path := range samplePaths {
		t.Run(path, func(t *testing.T) {
			parsed, err := gojq.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			all, ok := ParsePath(parsed)
			if !ok {
				t.Fatal("no path")
			}
			typed, ok := planTyped(reflect.TypeFor[sample](), all)
			if !ok {
				t.Fatal("no path on the struct")
			}
			rapid.Check(t, func(r *rapid.T) {
				s := drawSample(r)
				data, err := json.Marshal(s)
				if err != nil {
					r.Fatal(err)
				}
				var plain any
				if err := json.Unmarshal(data, &plain); err != nil {
					r.Fatal(err)
				}
				for _, want := range [][]string{nil, {"x"}, {"true"}, {"false"}, {"1"}, {""}, {"Because", "2023-11-14T22:13:20Z"}} {
					a, b := tally{want: want}, tally{want: want}
					walkTyped(reflect.ValueOf(s), typed, &a)
					walk(plain, all, &b)
					if x, y := found(a), found(b); x != y {
						r.Fatalf("in %q: struct %s; JSON %s; %s", want, x, y, data)
					}
				}
			})
		})
	}
}

// TestWalk: what a path finds in a JSON value, and when it fails as jq does.
func TestWalk(t *testing.T) {
	const object = `{"a": {"b": "x", "n": null, "list": [{"k": "x"}, {"k": "y"}, {}], "o": {"z": 1, "y": 2}}, "t": "text", "e": [], "m": [[1, 2], [3]]}`
	var v any
	if err := json.Unmarshal([]byte(object), &v); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		".":                                  "exists true, first an object or a list, found false",
		".a.b":                               `exists true, first "x", found true`,
		".a.n":                               "exists false, first nothing, found false",
		".a.n.deeper":                        "exists false, first nothing, found false",
		".absent.deeper":                     "exists false, first nothing, found false",
		".t.x":                               "failed",
		".a.list.k":                          "failed",
		".a.list[].k":                        `exists true, first "x", found true`,
		".a.list[]":                          "exists true, first an object or a list, found false",
		".e[]":                               "exists false, first nothing, found false",
		".e[].k":                             "exists false, first nothing, found false",
		".a.o[]":                             "exists true, first the number 2, found false", // in the order of the keys
		".m[][]":                             "exists true, first the number 1, found false",
		".m[][][]":                           "failed",
		".absent[]":                          "failed",
		".t[]":                               "failed",
		`.a.list[] | select(.k == "y") | .k`: `exists true, first "y", found false`,
		`.a.list[] | select(.k != "y") | .k`: `exists true, first "x", found true`,
		`.a.list[] | select(.k == "z")`:      "exists false, first nothing, found false",
		`.m[] | select(.k == "z")`:           "failed",
		`.e[] | select(.k == "z")`:           "exists false, first nothing, found false",
	} {
		parsed, err := gojq.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		all, ok := ParsePath(parsed)
		if !ok {
			t.Fatalf("%s is no path", path)
		}
		got := tally{want: []string{"x"}}
		walk(v, all, &got)
		if text := found(got); text != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
}

// TestRegister: a registered program is answered by its function, also if it is written in another way; all others
// are not.
func TestRegister(t *testing.T) {
	const program = `.metadata.annotations["example.com/registered"] | length`
	RegisterTexts(Pod, program, func(o metav1.Object, i int) (string, bool) {
		texts := []string{"", "one", o.GetName()}
		if i >= len(texts) {
			return "", false
		}
		return texts[i], true
	})
	const moment = `.metadata.annotations["example.com/moment"] | fromdate`
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	RegisterTime(Node, moment, func(o metav1.Object) (time.Time, bool) { return at, o.GetName() != "" })
	t.Cleanup(func() {
		for _, p := range []string{program, moment} {
			parsed, err := gojq.Parse(p)
			if err != nil {
				t.Fatal(err)
			}
			delete(podNatives, parsed.String())
			delete(nodeNatives, parsed.String())
		}
	})
	compile := func(text string, of Form) *Query {
		q, err := CompileJQ(text, of, true)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	pod := &View{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}
	for _, text := range []string{program, strings.ReplaceAll(program, " ", "  ")} {
		q := compile(text, Pod)
		// "" is null for a pod, whose JSON leaves empty texts out.
		if got := q.First(pod); q.Interpreted() || !q.Exists(pod) || got.Text != "one" || !q.In(pod, []string{"web"}) || q.In(pod, []string{""}) {
			t.Errorf("%s: %s", text, got.Describe())
		}
	}
	for of, text := range map[Form]string{Node: program, Unstructured: program, Pod: moment} {
		if q := compile(text, of); !q.Interpreted() {
			t.Errorf("form %d: %s is answered by a function of another form", of, text)
		}
	}
	q, named, unnamed := compile(moment, Node), &View{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, &View{Object: &corev1.Node{}}
	if got := q.First(named); got.Kind != Time || !got.Time.Equal(at) || !q.Exists(named) || !q.In(named, []string{"x", "2026-01-02T03:04:05Z"}) {
		t.Errorf("%s", got.Describe())
	}
	if q.Exists(unnamed) || q.First(unnamed).Kind != None || q.In(unnamed, []string{"2026-01-02T03:04:05Z"}) {
		t.Error("a function without an answer has one")
	}
}

// FuzzCompileJQ: whatever a stage contains as a program, it compiles to the same answers each time or is rejected with
// an error that begins with jq; nothing panics.
func FuzzCompileJQ(f *testing.F) {
	for _, program := range append(samplePaths, ".a[0]?", "[.[]?]", "def f: .; f", `"\(.a)"`, ".a as [$x] | $x", "try error catch .", "@json", "limit(3; .[])", "$__loc__", "..", "(") {
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program string) {
		q, err := CompileJQ(program, Unstructured, true)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "jq ") {
				t.Errorf("%q: %v", program, err)
			}
			return
		}
		object := widgetWith(map[string]any{"a": []any{"b", int64(1)}})
		first, second := q.First(&View{Object: object}), q.First(&View{Object: object.DeepCopy()})
		if first.Describe() != second.Describe() {
			t.Errorf("%q: %s, then %s", program, first.Describe(), second.Describe())
		}
	})
}
