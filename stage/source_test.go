package stage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// TestPositionOfFields checks line, column and value for the paths that errors and linters name. A field that is not
// written has the position of its nearest parent.
func TestPositionOfFields(t *testing.T) {
	text := `# a comment
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: &meta
  name: s
spec:
  resourceRef: {kind: Pod}
  selector:
    matchExpressions:
    - key: .a
      operator: Exists
    - {key: .b, operator: Exists}
  next: {delete: true}
copy: *meta
`
	src, err := DecodeOne("f", Documents([]byte(strings.Replace(text, "copy: *meta\n", "", 1)))[0])
	if err != nil {
		t.Fatal(err)
	}
	withAlias := &Source{Stage: &Stage{}, text: []byte(text), first: 100}
	for field, want := range map[string][2]int{
		"metadata.name":                              {5, 3},
		"spec.resourceRef.kind":                      {7, 17},
		"spec.selector.matchExpressions[0].key":      {10, 7},
		"spec.selector.matchExpressions[0].operator": {11, 7},
		"spec.selector.matchExpressions[1].operator": {12, 17},
		"spec.selector.matchExpressions[1]":          {12, 7},
		"spec.selector.matchExpressions[7].key":      {9, 5},
		"spec.selector.matchExpressions[x].key":      {9, 5},
		"spec.weight":                                {6, 1},
		"spec.next.delete":                           {13, 10},
		"spec.next.delete.further":                   {13, 10},
		"nothing":                                    {2, 1},
		"":                                           {2, 1},
	} {
		line, column, value := src.Position(field)
		if line != want[0] || column != want[1] || value == nil {
			t.Errorf("%s: %d:%d, want %d:%d", field, line, column, want[0], want[1])
		}
		if line, column, _ := withAlias.Position(field); line != want[0]+100 || column != want[1] {
			t.Errorf("%s, 100 lines further: %d:%d, want %d:%d", field, line, column, want[0]+100, want[1])
		}
	}
	if line, _, value := withAlias.Position("copy.name"); line != 105 || value.Value != "s" {
		t.Errorf("a field of an alias: line %d, %v", line, value)
	}
	if _, _, value := src.Position("spec.next.delete"); value.Value != "true" {
		t.Errorf("got %v", value)
	}
	if got := withAlias.LineOf(&yaml.Node{Line: 3}); got != 103 {
		t.Errorf("line %d", got)
	}
}

// TestPositionWithoutAFile checks that stages that were not written in a file have no position and still have errors.
func TestPositionWithoutAFile(t *testing.T) {
	for name, src := range map[string]*Source{
		"built in Go": {Stage: &Stage{}}, "text that is no YAML": {Stage: &Stage{}, text: []byte("a: [")}, "only a comment": {Stage: &Stage{}, text: []byte("# x")},
	} {
		for range 2 {
			if line, column, value := src.Position("spec"); line != 0 || column != 0 || value != nil {
				t.Errorf("%s: %d:%d %v", name, line, column, value)
			}
		}
		if e := src.place(problem("spec.weight", "is wrong")); e.Error() != "spec.weight: is wrong" {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// TestDocumentsOfAFile checks where documents begin, and that text that only looks like a separator does not end one.
func TestDocumentsOfAFile(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		lines []int // of the documents that are not empty
	}{
		"one":                      {"a: 1\n", []int{1}},
		"two":                      {"a: 1\n---\nb: 2\n", []int{1, 2}},
		"separator at the start":   {"---\na: 1\n", []int{1}},
		"separator at the end":     {"a: 1\n---\n", []int{1}},
		"no newline at the end":    {"a: 1\n---\nb: 2", []int{1, 2}},
		"windows":                  {"a: 1\r\n---\r\nb: 2\r\n", []int{1, 2}},
		"text after the separator": {"a: 1\n--- # second\nb: 2\n", []int{1, 2}},
		"spaces after it":          {"a: 1\n---   \nb: 2\n", []int{1, 2}},
		"dashes in a text":         {"a: |\n  ---\nb: x---\nc: ----\n", []int{1}},
		"nothing":                  {"", nil},
	} {
		var got []int
		for _, d := range Documents([]byte(c.text)) {
			root, err := d.Root()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if len(root.Content) > 0 && root.Content[0].Tag != "!!null" {
				got = append(got, d.Line())
			}
		}
		if diff := cmp.Diff(c.lines, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// TestNodesOfADocument checks what tools that read other fields of a file get: the parsed document, the name of the
// stage, and the lines of nodes in the file.
func TestNodesOfADocument(t *testing.T) {
	text := "a: 1\n---\nkind: List\nitems:\n- metadata: {name: first}\n- metadata: {name: [x]}\n- {}\n"
	documents := Documents([]byte(text))
	if len(documents) != 2 {
		t.Fatalf("%d documents", len(documents))
	}
	items := documents[1].Items()
	if len(items) != 3 {
		t.Fatalf("%d items", len(items))
	}
	for i, want := range []struct {
		name string
		line int
	}{{"first", 5}, {"", 6}, {"", 7}} {
		root, err := items[i].Root()
		if err != nil {
			t.Fatal(err)
		}
		if got := StageName(root); got != want.name || items[i].Line() != want.line || items[i].LineOf(root.Content[0]) != want.line {
			t.Errorf("item %d: %q at line %d", i, got, items[i].Line())
		}
	}
	for _, other := range []string{"kind: Other\nitems: [a]\n", "kind: List\nitems: a\n", "items: [a, b]\n", "kind: List\nitems: [\n", "kind: List\n# items\n"} {
		if got := Documents([]byte(other))[0].Items(); len(got) != 1 {
			t.Errorf("%q: %d items", other, len(got))
		}
	}
	_, err := Documents([]byte("a: 1\n---\nb: [\n"))[1].Root()
	if err == nil || err.Line != 3 && err.Line != 4 || !strings.HasPrefix(err.Problem, "yaml: ") {
		t.Errorf("got %+v", err)
	}
}

// TestDocumentsHaveALimit checks that a document larger than any object of the API is rejected before it is parsed.
func TestDocumentsHaveALimit(t *testing.T) {
	const want = "f.yaml:3: document 2: is over 3145728 bytes"
	large := "a: 1\n\n---\nb: \"" + strings.Repeat("x", mostBytes) + "\"\n"
	_, _, bad := LoadGood(File{Name: "f.yaml", Data: []byte(large)})
	if len(bad) != 2 || bad[1].Error() != want {
		t.Errorf("got %v", bad)
	}
	if _, err := Documents([]byte(large))[1].Root(); err == nil || err.Error() != "is over 3145728 bytes" || err.Line != 3 {
		t.Errorf("got %v", err)
	}
}

// TestDocumentsThatAreNoStage checks the errors for what stands in a file instead of a stage, with the line.
func TestDocumentsThatAreNoStage(t *testing.T) {
	for text, want := range map[string]string{
		"- a\n":                              "f:1: " + noStage,
		"text\n":                             "f:1: " + noStage,
		"7\n":                                "f:1: " + noStage,
		"a: 1\n---\n\n- b\n":                 "f:4: document 2: " + noStage,
		"\tkind: Stage\n":                    "f:1: yaml: found character that cannot start any token",
		"kind: Stage\nkind: Stage\n":         `f:2: yaml: key "kind" already set in map`,
		"kind: [Stage]\n":                    "f:1: kind: is an array and must be of type string",
		"metadata: {name: 7}\nkind: Stage\n": "f:1: metadata.name: is a number and must be of type string",
		"kind: List\nitems:\n- a\n- {kind: Pod}\n": "f:3: item 1: " + noStage,
	} {
		_, _, bad := LoadGood(File{Name: "f", Data: []byte(text)})
		found := false
		var got []string
		for _, e := range bad {
			got = append(got, e.Error())
			found = found || e.Error() == want
		}
		if !found {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}
