package scenario_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/rehearse-k8s/rehearse/scenario"
)

func TestBuiltinNames(t *testing.T) {
	want := []string{"cloneset", "daemonset", "deployment", "job", "operator", "replicaset", "statefulset"}
	if d := cmp.Diff(want, scenario.BuiltinNames()); d != "" {
		t.Error(d)
	}
	_, err := scenario.ReadBuiltin("jobs")
	if want := `read built-in scenario "jobs": not found; the built-in scenarios are ` + strings.Join(want, ", "); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// upstream are the controllers that the scenarios rely on.
var upstream = []string{kcm.GarbageCollectorController, kcm.DeploymentController, kcm.ReplicaSetController}

// TestBuiltinScenarios reads each and shows what it would do.
func TestBuiltinScenarios(t *testing.T) {
	for _, name := range scenario.BuiltinNames() {
		data, err := scenario.ReadBuiltin(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Read(name+".yaml", data, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Name != name || s.Spec.Description == "" || len(s.Clients) != 1 || s.NeedsCommand() != name {
			t.Errorf("%s: has name %s and description %q, and %q needs a command", name, s.Name, s.Spec.Description, s.NeedsCommand())
		}
		for _, c := range s.Controllers {
			if !slices.Contains(append(upstream, scenario.DefaultControllers()...), c) {
				t.Errorf("%s: controller %s", name, c)
			}
		}
		p := s.Invariants()
		if len(p.Always) == 0 || len(p.Eventually) == 0 || len(p.Sometimes) == 0 || len(s.Steps) == 0 {
			t.Errorf("%s: %d steps, %d always, %d in the end, %d sometimes", name, len(s.Steps), len(p.Always), len(p.Eventually), len(p.Sometimes))
		}
		var out bytes.Buffer
		if err := s.Describe(&out); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", "builtin", name+".txt"), out.String())
	}
}
