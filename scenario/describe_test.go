package scenario_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/scenario"
)

func TestDescribe(t *testing.T) {
	for _, name := range []string{"least", "whole"} {
		var out bytes.Buffer
		if err := read(t, "testdata/"+name+".yaml").Describe(&out); err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+name+".txt", out.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestDescribeToFullDisk(t *testing.T) {
	if err := read(t, "testdata/whole.yaml").Describe(fullDisk{}); err == nil {
		t.Error("no error")
	}
}

// TestDocument: what is written as YAML is read as the same scenario.
func TestDocument(t *testing.T) {
	for _, name := range []string{"testdata/least.yaml", "testdata/whole.yaml"} {
		s := read(t, name)
		if s.NeedsCommand() != "" {
			if err := s.SetCommand([]string{"./operator"}); err != nil {
				t.Fatal(err)
			}
		}
		data, err := yaml.Marshal(s.Document())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "null") || strings.Contains(string(data), "{}\n  ") {
			t.Errorf("%s", data)
		}
		again, err := scenario.Read(name, data, files)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if d := cmp.Diff(s.Document(), again.Document()); d != "" {
			t.Error(d)
		}
	}
}
