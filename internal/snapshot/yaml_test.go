package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// texts are strings that YAML reads as something else without quotes.
var texts = []string{
	"", " ", "~", "null", "true", "No", "on", "1", "1.5", "0x1f", "1e3", ".inf", "-", "- a", "a: b", "a:b", "a #b", "#", "<<", "=", "&a", "*a", "!a", "%a", "@a",
	"`", "{", "[", "a,b", "?", "2024-01-01T00:00:00Z", "2024-01-01", "a\nb", "a\nb\n", "a\n\nb", "\na", "a\n\n", " a\nb", "a\n b\n", "a\n\tb", "a\t\nb", "a\n \nb", "a\r\nb", "---\na", "a\n---\nb\n",
	"\x00", "\x7f", "\u0085", "\u2028", "\ufeff", "é", "日本", "😀", `"`, `\`, "'", "a'b", "a: ", "a:", ":a", "nginx:1.2", "10.0.0.0/8", "key=value", "node-role.kubernetes.io/agent", "y", "a ", strings.Repeat("long ", 300),
	"{\"a\": 1}\n", "#!/bin/sh\nset -e\n  indented\nend\n",
}

func genText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(texts), rapid.String(), rapid.StringMatching(`[a-z :#\n\t'"-]{0,12}`))
}

func genValue(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		genText().AsAny(), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Just[any](nil), rapid.SampledFrom([]float64{0.5, -1e300, 1.5e-9, 1e21}).AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	return rapid.OneOf(append(scalars, rapid.Map(rapid.SliceOfN(genValue(depth-1), 0, 3), func(s []any) any { return s }),
		rapid.Map(genMap(depth-1), func(m map[string]any) any { return m }))...)
}

func genMap(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(genText(), genValue(depth), 0, 4)
}

// TestYAMLProperty: a YAML parser reads what appendYAML writes as the same value.
func TestYAMLProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := genMap(3).Draw(t, "doc")
		data, ok := appendYAML(nil, doc)
		if !ok {
			return
		}
		if got := parse(t, data); !cmp.Equal(doc, got) {
			t.Fatalf("%s\nwant %#v\ngot  %#v", data, doc, got)
		}
	})
}

type failer interface{ Fatalf(string, ...any) }

func parse(t failer, data []byte) map[string]any {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return got
}

func TestYAMLTexts(t *testing.T) {
	for _, s := range texts {
		doc := map[string]any{"k": s, "list": []any{s, map[string]any{"a": s}}}
		if len(s) <= maxKey {
			doc[s] = "v"
		}
		data, ok := appendYAML(nil, doc)
		if !ok {
			t.Fatalf("%q", s)
		}
		if d := cmp.Diff(doc, parse(t, data)); d != "" {
			t.Errorf("%q: %s\n%s", s, d, data)
		}
	}
}

// TestYAMLReadable shows the style.
func TestYAMLReadable(t *testing.T) {
	doc := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "web", "labels": map[string]any{"app.kubernetes.io/name": "web", "on": "true"}},
		"data":     map[string]any{"run.sh": "#!/bin/sh\n\nexec web --port 80\n", "empty": ""},
		"list":     []any{map[string]any{"a": int64(1), "b": []any{}}, "c", []any{"d"}},
	}
	const want = `apiVersion: v1
data:
  empty: ""
  run.sh: |
    #!/bin/sh

    exec web --port 80
kind: ConfigMap
list:
- a: 1
  b: []
- c
- - d
metadata:
  labels:
    app.kubernetes.io/name: web
    "on": "true"
  name: web
`
	got, _ := appendYAML(nil, doc)
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

func TestYAMLLongKey(t *testing.T) {
	if _, ok := appendYAML(nil, map[string]any{"a": []any{map[string]any{strings.Repeat("k", maxKey+1): "v"}}}); ok {
		t.Error("a key that parsers reject was written in block style")
	}
}
