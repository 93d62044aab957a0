package scenario_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// TestBad shows every scenario under testdata/bad with what is said about it.
func TestBad(t *testing.T) {
	names, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(names) < 10 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = scenario.Read(filepath.Base(name), data, func(file string) ([]byte, error) {
				data, err := fs.ReadFile(os.DirFS("testdata/bad"), file)
				if err != nil {
					return nil, fs.ErrNotExist
				}
				return data, nil
			})
			if err == nil {
				t.Fatal("it is accepted")
			}
			golden(t, strings.TrimSuffix(name, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func TestDefaults(t *testing.T) {
	s := read(t, "testdata/least.yaml")
	if s.Name != "least" || s.File != "testdata/least.yaml" || s.Nodes != 2 || s.Runs != 200 || s.Budget != 5*time.Minute ||
		s.Level != fault.Legal || !reflect.DeepEqual(s.Controllers, []string{"stage", "scheduler"}) {
		t.Errorf("%+v", s)
	}
	if !reflect.DeepEqual(s.Patterns, fault.Any(fault.Legal)) {
		t.Errorf("patterns %v", s.Patterns)
	}
	if s.NeedsCommand() != "operator" {
		t.Errorf("needs a command: %q", s.NeedsCommand())
	}
}

// TestWhole reads a scenario in which everything is used once.
func TestWhole(t *testing.T) {
	s := read(t, "testdata/whole.yaml")
	var steps []string
	for _, step := range s.Steps {
		steps = append(steps, step.String())
	}
	want := []string{
		"apply Web default/web",
		"create ConfigMap a, ConfigMap b",
		"wait, 1m0s at most, until: two pods",
		"patch webs.example.com/scale default/web (merge): {\"spec\":{\"replicas\":3}}",
		"patch pods default/web-0 (json): [{\"op\":\"remove\",\"path\":\"/metadata/labels\"}]",
		"delete pods of default with app=web (Foreground)",
		"settle, 30s at most",
	}
	if d := cmp.Diff(want, steps); d != "" {
		t.Error(d)
	}
	if len(s.Objects) != 3 || s.Stages[0] != "builtin:pod-fast" || s.Stages[1] != "testdata/files/stages.yaml" {
		t.Errorf("objects %v, stages %v", s.Objects, s.Stages)
	}
	if d := cmp.Diff("testdata/files", s.Clients[0].Dir); d != "" {
		t.Error(d)
	}
	p := s.Invariants()
	var all []string
	for _, i := range p.Always {
		all = append(all, "always "+i.Name)
	}
	for _, i := range p.Eventually {
		all = append(all, "eventually, in "+i.Within.String()+": "+i.Name)
	}
	for _, i := range p.Sometimes {
		all = append(all, "sometimes "+i.Name)
	}
	golden(t, "testdata/whole.invariants.txt", strings.Join(all, "\n")+"\n")
	if s.Level != fault.Seen || len(s.Patterns) != 2 || s.Runs != 50 || s.Budget != time.Minute || !s.EndsVary {
		t.Errorf("%v %v %d %s %v", s.Level, s.Patterns, s.Runs, s.Budget, s.EndsVary)
	}
}

func TestSetLevel(t *testing.T) {
	s := read(t, "testdata/least.yaml")
	if err := s.SetLevel(fault.Adversarial); err != nil || len(s.Patterns) != len(fault.Any(fault.Adversarial)) {
		t.Errorf("%v, %d patterns", err, len(s.Patterns))
	}
	err := read(t, "testdata/whole.yaml").SetLevel(fault.Legal)
	want := "testdata/whole.yaml:107: spec.faults.only[1]: lose-event actor=operator: lose-event is of level seen and the scenario's level is legal; set spec.faults.level to seen"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestProblem(t *testing.T) {
	err := read(t, "testdata/whole.yaml").Problem("spec.clients[1].builtin", "no controller has that name")
	if want := "testdata/whole.yaml:45: spec.clients[1].builtin: job: no controller has that name"; err.Error() != want {
		t.Error(err)
	}
}
