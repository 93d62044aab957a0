package stage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"pgregory.net/rapid"
)

func fromJSON(t testing.TB, text string) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// TestJSONPatchErrors checks that a patch that does not fit is an error that names the operation and the part of the
// path, as the API server would reject it.
func TestJSONPatchErrors(t *testing.T) {
	for ops, want := range map[string]string{
		`[{"op":"add","path":"/a/0","value":1},{"op":"remove","path":"/x"}]`: `operation 1: "x" does not exist`,
		`[{"op":"remove","path":"/a/2"}]`:                                    `operation 0: "2" is not an index of the list`,
		`[{"op":"remove","path":"/a/-"}]`:                                    `operation 0: "-" is not an index of the list`,
		`[{"op":"remove","path":"/a/0/b"}]`:                                  `operation 0: "b" does not exist`,
		`[{"op":"remove","path":"/a/9/b"}]`:                                  `operation 0: "9" is not an index of the list`,
		`[{"op":"remove","path":"/m/x/y"}]`:                                  `operation 0: "x" does not exist`,
		`[{"op":"remove","path":"/m/n/y"}]`:                                  `operation 0: "y" does not exist`,
		`[{"op":"add","path":"/x/y","value":1}]`:                             `operation 0: "x" does not exist`,
		`[{"op":"add","path":"/a/-1","value":1}]`:                            `operation 0: "-1" is not an index of the list`,
		`[{"op":"add","path":"/a/b/c","value":1}]`:                           `operation 0: "b" is not an index of the list`,
		`[{"op":"add","path":"/s/c","value":1}]`:                             `operation 0: "c" does not exist`,
		`[{"op":"replace","path":"/m/x","value":1}]`:                         `operation 0: "x" does not exist`,
		`[{"op":"replace","path":"/a/2","value":1}]`:                         `operation 0: "2" is not an index of the list`,
		`[{"op":"replace","path":"/a"}]`:                                     `operation 0: replace requires a value`,
		`[{"op":"test","path":"/a"}]`:                                        `operation 0: test requires a value`,
		`[{"op":"test","path":"/m/n","value":2}]`:                            `operation 0: /m/n does not have the tested value`,
		`[{"op":"test","path":"/m/x","value":null}]`:                         `operation 0: "x" does not exist`,
		`[{"op":"test","path":"/a/x","value":1}]`:                            `operation 0: "x" is not an index of the list`,
		`[{"op":"test","path":"/s/x","value":1}]`:                            `operation 0: "x" does not exist`,
		`[{"op":"move","path":"/b"}]`:                                        `operation 0: from is not a JSON pointer such as /status/phase`,
		`[{"op":"move","from":"b","path":"/b"}]`:                             `operation 0: from is not a JSON pointer such as /status/phase`,
		`[{"op":"move","from":"/x","path":"/b"}]`:                            `operation 0: "x" does not exist`,
		`[{"op":"move","from":"/m","path":"/m/n"}]`:                          `operation 0: "m" does not exist`,
		`[{"op":"copy","from":"/a/5","path":"/b"}]`:                          `operation 0: "5" is not an index of the list`,
		`[{"op":"copy","from":"/m","path":"/x/y"}]`:                          `operation 0: "x" does not exist`,
		`[{"path":"/a"}]`:                                                    `operation 0: op "" is not one of add, remove, replace, move, copy, test`,
		`[{"op":"remove"}]`:                                                  `operation 0: path is not a JSON pointer such as /status/phase`,
		`[{"op":"remove","path":7}]`:                                         `operation 0: path is not a JSON pointer such as /status/phase`,
		`[{"op":"add","path":"/m/y","value":1}, "remove"]`:                   `operation 1 is not a mapping`,
	} {
		doc := fromJSON(t, `{"a":[1,{"b":2}],"m":{"n":1},"s":"text"}`)
		got, err := applyJSONPatch(doc, fromJSON(t, ops).([]any))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v, %v\nwant %s", ops, got, err, want)
		}
		if diff := cmp.Diff(fromJSON(t, `{"a":[1,{"b":2}],"m":{"n":1},"s":"text"}`), doc); diff != "" {
			t.Errorf("%s: a failed patch changed the document: %s", ops, diff)
		}
	}
}

// TestJSONPatchOnLists checks positions at the ends of lists and inside nested ones.
func TestJSONPatchOnLists(t *testing.T) {
	for ops, want := range map[string]string{
		`[{"op":"add","path":"/l/0","value":0}]`:                                            `{"l":[0,1,[2,3]]}`,
		`[{"op":"add","path":"/l/2","value":4}]`:                                            `{"l":[1,[2,3],4]}`,
		`[{"op":"add","path":"/l/1/-","value":4}]`:                                          `{"l":[1,[2,3,4]]}`,
		`[{"op":"remove","path":"/l/1/0"}]`:                                                 `{"l":[1,[3]]}`,
		`[{"op":"remove","path":"/l/0"},{"op":"remove","path":"/l/0"}]`:                     `{"l":[]}`,
		`[{"op":"move","from":"/l/0","path":"/l/-"}]`:                                       `{"l":[[2,3],1]}`,
		`[{"op":"copy","from":"/l/1","path":"/l/0"}]`:                                       `{"l":[[2,3],1,[2,3]]}`,
		`[{"op":"test","path":"/l/1/1","value":3},{"op":"replace","path":"/l","value":{}}]`: `{"l":{}}`,
		`[{"op":"test","path":"","value":{"l":[1,[2,3]]}}]`:                                 `{"l":[1,[2,3]]}`,
		`[{"op":"copy","from":"","path":"/whole"}]`:                                         `{"l":[1,[2,3]],"whole":{"l":[1,[2,3]]}}`,
		`[]`: `{"l":[1,[2,3]]}`,
	} {
		got, err := applyJSONPatch(fromJSON(t, `{"l":[1,[2,3]]}`), fromJSON(t, ops).([]any))
		if err != nil {
			t.Errorf("%s: %v", ops, err)
			continue
		}
		if diff := cmp.Diff(fromJSON(t, want), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", ops, diff)
		}
	}
}

// drawJSON generates a JSON value with keys that need escapes in a pointer.
func drawJSON(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		switch {
		case depth > 0 && kind == 0:
			return rapid.SliceOfN(drawJSON(depth-1), 0, 3).Draw(t, "list")
		case depth > 0 && kind <= 2:
			return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b/c", "~", "~1", "", "0"}), drawJSON(depth-1), 0, 4).Draw(t, "mapping")
		case kind == 3:
			return nil
		case kind == 4:
			return rapid.Bool().Draw(t, "boolean")
		}
		return rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "text")
	})
}

func escape(part string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
}

// TestJSONPatchUndone checks with random documents that adding and removing a field restores the document, that move
// equals copy and remove, and that no patch changes its input.
func TestJSONPatchUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b/c", "~", "~1", ""}), drawJSON(2), 1, 4).Draw(t, "document")
		before := fmt.Sprint(doc)
		op := func(name string, more ...any) any {
			out := map[string]any{"op": name}
			for i := 0; i < len(more); i += 2 {
				out[more[i].(string)] = more[i+1]
			}
			return out
		}
		apply := func(ops ...any) any {
			out, err := applyJSONPatch(doc, ops)
			if err != nil {
				t.Fatalf("%v of %v: %v", ops, doc, err)
			}
			if after := fmt.Sprint(doc); after != before {
				t.Fatalf("the document became %s", after)
			}
			return out
		}
		var keys []string
		for key := range doc {
			keys = append(keys, key)
		}
		from := "/" + escape(rapid.SampledFrom(keys).Draw(t, "field"))
		value := drawJSON(2).Draw(t, "value")
		if got := apply(op("add", "path", "/new", "value", value), op("test", "path", "/new", "value", value), op("remove", "path", "/new")); !cmp.Equal(got, any(doc)) {
			t.Fatalf("added and removed: %s", cmp.Diff(any(doc), got))
		}
		moved := apply(op("move", "from", from, "path", "/new"))
		if got := apply(op("copy", "from", from, "path", "/new"), op("remove", "path", from)); !cmp.Equal(got, moved) {
			t.Fatalf("moved, and copied and removed: %s", cmp.Diff(moved, got))
		}
		if got := apply(op("move", "from", from, "path", "/new"), op("move", "from", "/new", "path", from)); !cmp.Equal(got, any(doc)) {
			t.Fatalf("moved and moved back: %s", cmp.Diff(any(doc), got))
		}
	})
}

// TestJSONPatchOfAStage checks the errors that only a stage can cause: a template of another form, and a result that
// is no object.
func TestJSONPatchOfAStage(t *testing.T) {
	for template, want := range map[string]string{
		`a: b`:                                   "the template of a JSON patch does not render a list of operations",
		`[x]`:                                    "operation 0 is not a mapping",
		`[{op: remove, path: ""}]`:               `JSON patch: the result is not an object`,
		`[{op: replace, path: "", value: text}]`: `JSON patch: the result is not an object`,
		`[{op: remove, path: /none}]`:            `JSON patch: operation 0: "none" does not exist`,
	} {
		set := mustCompile(t, widgetStage("  steps: [{patch: {type: json, template: '"+template+"'}}]"))
		o := widget(t, "")
		_, err := set.Play(stagetest.Start, o, set.Decide(stagetest.Start, 1, o, Past{}, Scene{}), nil)
		want = "stage s: spec.steps[0].patch.template: " + want
		if template == `[x]` {
			want = "stage s: spec.steps[0].patch.template: JSON patch: operation 0 is not a mapping"
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", template, err, want)
		}
	}
	if _, err := rooted([]any{"x"}, "status"); err == nil || err.Error() != "operation 0 is not a mapping" {
		t.Errorf("got %v", err)
	}
}
