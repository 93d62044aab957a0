package scenario_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/scenario"
)

// object reads a manifest of one object and returns it as JSON.
func object(t testing.TB, manifest string) (string, error) {
	t.Helper()
	s, err := parse("  cluster: {objects: [{file: o.yaml}]}\n", map[string]string{"o.yaml": manifest})
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(s.Objects[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(data), nil
}

// TestScalars: a value in an object means what it means to kubectl, that is, to sigs.k8s.io/yaml.
func TestScalars(t *testing.T) {
	for text, want := range map[string]string{
		"text": `"text"`, `"7"`: `"7"`, "'yes'": `"yes"`, "": "null", "null": "null", "~": "null", "Null": "null",
		"true": "true", "True": "true", "TRUE": "true", "false": "false", "yes": "true", "Yes": "true", "YES": "true", "y": "true", "on": "true", "On": "true",
		"no": "false", "No": "false", "n": "false", "off": "false", "OFF": "false", "yEs": `"yEs"`, "oN": `"oN"`,
		"7": "7", "-7": "-7", "+7": "7", "0": "0", "9223372036854775807": "9223372036854775807", "9007199254740993": "9007199254740993",
		"0x10": "16", "0o17": "15", "1_000": "1000", "1.5": "1.5", "1e3": "1000", "-.5": "-0.5",
		"2001-01-01": `"2001-01-01"`, "2001-01-01T00:00:00Z": `"2001-01-01T00:00:00Z"`, "1.2.3": `"1.2.3"`, "100m": `"100m"`, "1:30": `"1:30"`,
		"|\n    a\n    b": `"a\nb\n"`, ">-\n    a\n    b": `"a b"`, "!!str 7": `"7"`, "[1, a]": `[1,"a"]`, "{a: {b: no}}": `{"a":{"b":false}}`, "[]": "[]", "{}": "{}",
	} {
		manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: " + text + "\n"
		got, err := object(t, manifest)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if want := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":` + want + "}"; got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// scalars are texts for TestReadsAsKubectl, with those on which YAML 1.1, YAML 1.2 and JSON differ.
var scalars = []string{"a", "yes", "no", "on", "off", "y", "n", "true", "false", "null", "~", "1", "-3", "0.25", "007x", "1e3", "2001-01-01", `"7"`, "'no'", "abc def",
	"010", "0o17", "0b11", "0x1F", "1_000", "+1", ".5", "5.", "1e400", "12e03", "1:30", "Null", "NULL", "TRUE", "yEs", "=", "<<x", "-0", "1E2", "0.1"}

// keys are texts of keys for TestReadsAsKubectl.
var keys = []string{"a", "yes", "no", "on", "Off", "y", "true", "FALSE", "7", "010", "0o17", "0x1F", "-3", "1.5", "1e3", "2001-01-01", `"yes"`, "'010'", "100m", "yEs"}

// TestKeys: a key in an object means what it means to kubectl; two spellings of one key are reported.
func TestKeys(t *testing.T) {
	for text, want := range map[string]string{
		"yes: a": `{"true":"a"}`, "'yes': a": `{"yes":"a"}`, "010: a": `{"8":"a"}`, `"010": a`: `{"010":"a"}`, "off: {n: 1}": `{"false":{"false":1}}`,
		"yes: a, 1: b, 010: c, 'on': d, x.y/z: e": `{"1":"b","8":"c","on":"d","true":"a","x.y/z":"e"}`,
		"1.50: a": `{"1.5":"a"}`, "2001-01-01: a": `{"2001-01-01":"a"}`,
	} {
		got, err := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: {"+text+"}\n")
		if want := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":` + want + "}"; err != nil || got != want {
			t.Errorf("%q is %s, %v, want %s", text, got, err, want)
		}
	}
	_, err := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: {yes: a, \"true\": b}\n")
	equal(t, "two spellings", []string{"x.true: is set twice, first in line 4"}, problems(t, err))
}

// document draws a value in flow style.
func document(t *rapid.T, depth int) string {
	switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
	case kind == 1 && depth > 0:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			items = append(items, document(t, depth-1))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case kind == 2 && depth > 0:
		var items []string
		for i := range rapid.IntRange(0, 3).Draw(t, "length") {
			key := fmt.Sprintf("k%d", i)
			if i == 0 {
				key = rapid.SampledFrom(keys).Draw(t, "key")
			}
			items = append(items, key+": "+document(t, depth-1))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return rapid.SampledFrom(scalars).Draw(t, "scalar")
}

// TestReadsAsKubectl: an object of any shape is the one that kubectl sends for the same file.
func TestReadsAsKubectl(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: " + document(r, 3) + "\n"
		got, err := object(t, manifest)
		if err != nil {
			r.Fatalf("%v in\n%s", err, manifest)
		}
		want, err := yaml.YAMLToJSON([]byte(manifest))
		if err != nil {
			r.Fatalf("%v in\n%s", err, manifest)
		}
		if got != string(want) {
			r.Errorf("%s\nis   %s\nwant %s", manifest, got, want)
		}
	})
}

// TestNotJSON: what JSON cannot express is an error and not guessed.
func TestNotJSON(t *testing.T) {
	for text, want := range map[string]string{
		"x: .inf":                        "x: .inf: is not a number in JSON",
		"x: [1, -.Inf]":                  "x[1]: -.Inf: is not a number in JSON",
		"x: !!binary aGk=":               "x: aGk=: the tag !!binary is not supported",
		"x: !secret a":                   "x: a: the tag !secret is not supported",
		"? {a: b}\n: c":                  "has a key that is not a text",
		"~: c":                           "has a key that is not a text",
		"x: {a: 1, b: 2, a: 3}":          "x.a: is set twice, first in line 4",
		"x: {a.b/c: 1, a.b/c: 3}":        "x[a.b/c]: is set twice, first in line 4",
		"y: &a {b: 1}\nx:\n  <<: *a":     "x.<<: merge keys are not supported; write the fields out",
		"x: \"a":                         "is not valid YAML: found unexpected end of stream",
		"x: *nothing":                    "is not valid YAML: unknown anchor 'nothing' referenced",
		"\tx: 1":                         "is not valid YAML: found character that cannot start any token",
		"x: " + strings.Repeat("[", 110): "is not valid YAML: did not find expected node content",
	} {
		_, err := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"+text+"\n")
		equal(t, text, []string{want}, problems(t, err))
	}
}

// TestAnchors: an alias stands for the value of its anchor.
func TestAnchors(t *testing.T) {
	got, err := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: &n a, labels: &l {app: *n}}\nx: [*l, *n]\n")
	if want := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"app":"a"},"name":"a"},"x":[{"app":"a"},"a"]}`; err != nil || got != want {
		t.Errorf("%v %s", err, got)
	}
}

// TestSizes: a file that is too large is rejected before it is decoded, and one that is too deep before it is walked.
func TestSizes(t *testing.T) {
	_, err := scenario.Read("s.yaml", []byte(head+oneClient+"# "+strings.Repeat("x", 3<<20)), nil)
	if err == nil || !strings.Contains(err.Error(), "s.yaml: is 314") || !strings.Contains(err.Error(), " bytes long, more than 3145728") {
		t.Errorf("%.200v", err)
	}
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for depth, ok := range map[int]bool{90: true, 120: false} {
		_, err := object(t, manifest+"x: "+strings.Repeat("[", depth)+strings.Repeat("]", depth)+"\n")
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "is too large or nested too deeply") {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
	for length, ok := range map[int]bool{90_000: true, 100_001: false} {
		_, err := object(t, manifest+"x: ["+strings.Repeat("1,", length)+"]\n")
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "is too large or nested too deeply") {
			t.Errorf("length %d: %.200v", length, err)
		}
	}
}
