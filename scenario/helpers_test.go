package scenario_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/scenario"
)

// head is the beginning of a scenario whose only client is a; the fields of spec follow it.
const head = `apiVersion: rehearse-k8s.github.io/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
`

// oneClient is the field of spec that a scenario cannot omit.
const oneClient = "  clients: [{name: a}]\n"

// files are those that the scenarios of testdata name.
func files(name string) ([]byte, error) { return os.ReadFile(name) }

// read reads a file of testdata.
func read(t testing.TB, name string) *scenario.Scenario {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Read(name, data, files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// parse reads the scenario of some fields of spec, which are indented by two spaces. The client a is added
// if there are no clients among them.
func parse(spec string, files map[string]string) (*scenario.Scenario, error) {
	if !strings.Contains(spec, "  clients:") {
		spec = oneClient + spec
	}
	return scenario.Read("s.yaml", []byte(head+spec), func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	})
}

// parseText reads a whole scenario that names no files.
func parseText(text string) (*scenario.Scenario, error) {
	return scenario.Read("s.yaml", []byte(text), nil)
}

// mustParse is parse for a scenario without mistakes.
func mustParse(t testing.TB, spec string) *scenario.Scenario {
	t.Helper()
	s, err := parse(spec, nil)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, spec)
	}
	return s
}

// problems returns the errors of a scenario, each without the file's name and line.
func problems(t testing.TB, err error) (texts []string) {
	t.Helper()
	var all scenario.Errors
	if err != nil && !errors.As(err, &all) {
		t.Fatalf("error is %T: %v", err, err)
	}
	for _, one := range all {
		one := *one
		one.File, one.Line = "", 0
		texts = append(texts, strings.TrimPrefix(one.Error(), ": "))
	}
	return texts
}

// equal fails the test if two values differ.
func equal(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// golden compares a text with a file; UPDATE_GOLDEN=1 writes the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(d)
	}
}
