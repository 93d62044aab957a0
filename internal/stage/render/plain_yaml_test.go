package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func libraryYAML(text []byte) (value any, err error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	return value, kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &value)
}

// agreeOnYAML checks that what is read plainly is read as the library does.
func agreeOnYAML(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text []byte) (plainly bool) {
	t.Helper()
	got, ok := plainYAML(text)
	if !ok {
		return false
	}
	want, err := libraryYAML(text)
	if err != nil {
		t.Fatalf("%q was read; the library says %v", text, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%q: the library's - and ours +\n%s", text, diff)
	}
	return true
}

var plainTexts = []string{
	"", "\n\n", "a: 1", "a: b\nc:\n  d: e\n", "a:\n- b\n- c\n", "a:\n  - b: 1\n    c: 2\n  - d\n", "- a\n-\n- - b\n  - c\n",
	"phase: Running\nstartTime: \"2026-01-02T15:04:05Z\"\nhostIP: '10.0.0.1'\nconditions:\n\n- type: Ready\n  status: \"True\"\n  reason: null\n\nlast: {}\nnone: []\n",
	"a:\nb:\n", "a:\n  b:\n\n  c: x\n", "\"a/b\": kubelet is posting (ready) status\n", "- a: x\n  b:\n  - c\n", "ports:\n-   name: web\n    port: 80\n",
	"image: nginx:1.27\n", "containerID: rehearse://0a1b\n", "message: ''\n", "num: 0\nmany: 123456789012345\n", "-\n  a: b\n",
}

// Texts that only the library parses or rejects.
var otherTexts = []string{
	"a: yes", "y: 1", "a: 010", "a: 1.5", "a: 1e3", "a: 2026-01-02", "a: 10.0.0.1", "a: \"x\\n\"", "a: [1]", "a: {b: c}", "a: |\n  x\n", "a: b\n  c\n",
	"a: 1\na: 2\n", "a: b # c", "# a", "--- a", "a: &x b", "a: *x", "a: !!str 1", "a\n", "a: b: c", "\ta: b", "a: é", "a:\n    b: 1\n  c: 2\n", "? a", "a: - b", "-a", "a: 'it''s'",
	"a: \"", "a: '", "- \"a\": b: c", "a: ~x", "a: .inf", "a: 0x1", "a: 1_000", "a: 1:30", "  a: 1\nb: 2",
}

func TestPlainYAML(t *testing.T) {
	for _, text := range plainTexts {
		if !agreeOnYAML(t, []byte(text)) {
			t.Errorf("%q was not read", text)
		}
	}
	for _, text := range otherTexts {
		if agreeOnYAML(t, []byte(text)) {
			t.Errorf("%q was read", text)
		}
	}
}

// TestPlainYAMLOfLines makes texts of lines that are likely to fit together, and
// counts that enough of them were read.
func TestPlainYAMLOfLines(t *testing.T) {
	keys := rapid.SampledFrom([]string{"", "a:", "b:", "c:", `"d":`, "no:", "e.f/g:", "a :"})
	values := rapid.SampledFrom([]string{"", "x", "1", "007", `"q"`, "'q'", "null", "~", "{}", "[]", "true", "no", "x y", "x: y", "x:y", "- z", "-", "x #y", "1.5", "{a: b}", `"`, "x:", "a'b", "x @ y"})
	read := 0
	rapid.Check(t, func(r *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(0, 7).Draw(r, "lines") {
			text.WriteString(strings.Repeat(" ", rapid.IntRange(0, 5).Draw(r, "indent")))
			text.WriteString(strings.Repeat("- ", rapid.IntRange(0, 2).Draw(r, "dashes")))
			fmt.Fprintf(&text, "%s %s\n", keys.Draw(r, "key"), values.Draw(r, "value"))
		}
		if agreeOnYAML(r, []byte(text.String())) {
			read++
		}
	})
	if read == 0 {
		t.Error("none was read")
	}
}

func FuzzPlainYAML(f *testing.F) {
	for _, text := range append(plainTexts, otherTexts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { agreeOnYAML(t, text) })
}
