package verdict

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestPathCovers: a path selects a field and everything below it; [*] is any element of a list.
func TestPathCovers(t *testing.T) {
	for _, c := range []struct {
		pattern Path
		field   string
		want    bool
	}{
		{Path{"pods", "status.hostIP"}, ".status.hostIP", true},
		{Path{"pods", "status.hostIP"}, ".status.hostIPs[0].ip", false},
		{Path{"pods", "status"}, ".status.hostIPs[0].ip", true},
		{Path{"", "status"}, ".status.phase", true},
		{Path{"nodes", "status"}, ".status.phase", false},
		{Path{"pods", ""}, ".spec.nodeName", true},
		{Path{"pods", "spec.containers[*].image"}, ".spec.containers[name=web].image", true},
		{Path{"pods", "spec.containers[*].image"}, ".spec.containers[0].image", true},
		{Path{"pods", "spec.containers[0].image"}, ".spec.containers[1].image", false},
		{Path{"pods", "spec.containers[*]"}, ".spec.containers", false},
		{Path{"pods", "metadata.annotations[example.com/sum]"}, ".metadata.annotations[example.com/sum]", true},
		{Path{"pods", "metadata.annotations[sum]"}, ".metadata.annotations.sum", true},
		{Path{"pods", "metadata.annotations[*]"}, ".metadata.annotations.sum", false},
	} {
		if got := c.pattern.covers("pods", c.field); got != c.want {
			t.Errorf("%s covers %s: %t", c.pattern, c.field, got)
		}
	}
}

// TestSwitch: the failure of an automatic invariant names what turns it off, in the author's syntax.
func TestSwitch(t *testing.T) {
	for name, c := range map[string]struct {
		failure            history.Failure
		inTest, inScenario string
	}{
		"a field": {history.Failure{Oracle: BaselineOracle, Resource: "pods", Path: "status.hostIP"},
			`w.Ignore("pods", "status.hostIP"); or, if runs may end in different states, w.AllowDifferentOutcomes()`,
			"invariants.ignore: [{resource: pods, path: status.hostIP}]; or, if runs may end in different states, invariants.endsVary: true"},
		"an element and a key": {history.Failure{Oracle: BaselineOracle, Resource: "webs.example.com", Path: "status.pods[3].labels[example.com/x]"},
			`w.Ignore("webs.example.com", "status.pods[*].labels[example.com/x]"); or, if runs may end in different states, w.AllowDifferentOutcomes()`,
			"invariants.ignore: [{resource: webs.example.com, path: 'status.pods[*].labels[example.com/x]'}]; or, if runs may end in different states, invariants.endsVary: true"},
		"a number of objects": {history.Failure{Oracle: BaselineOracle, Resource: "pods"},
			`w.Ignore("pods"); or, if runs may end in different states, w.AllowDifferentOutcomes()`,
			"invariants.ignore: [{resource: pods}]; or, if runs may end in different states, invariants.endsVary: true"},
		"quiescence":     {history.Failure{Oracle: QuiescenceOracle}, `w.Disable("Quiescence")`, "invariants.disable: [Quiescence]"},
		"a hot loop":     {history.Failure{Oracle: invariant.DefaultHotLoop.Name}, `w.Disable("HotLoop")`, "invariants.disable: [HotLoop]"},
		"deleted":        {history.Failure{Oracle: invariant.Deleted().Name}, `w.Disable("Deleted")`, "invariants.disable: [Deleted]"},
		"a successor":    {history.Failure{Oracle: invariant.NoSuccessorDeleted().Name}, `w.Disable("Successors")`, "invariants.disable: [Successors]"},
		"of the author":  {history.Failure{Oracle: "at most 3 pods"}, "", ""},
		"stale own view": {history.Failure{Oracle: StaleOracle}, `w.Disable("StaleOwnWrites")`, "invariants.disable: [StaleOwnWrites]"},
	} {
		if got := Switch(&c.failure, InTest); got != c.inTest {
			t.Errorf("%s, in a test: %s", name, got)
		}
		if got := Switch(&c.failure, InScenario); got != c.inScenario {
			t.Errorf("%s, in a scenario: %s", name, got)
		}
	}
	for _, name := range invariant.AutomaticNames() {
		found := false
		for _, automatic := range automaticByOracle {
			found = found || automatic == name
		}
		if !found {
			t.Errorf("no failure names the switch %s", name)
		}
	}
}

// TestIsTrusted: a controller is trusted together with its replicas and its second instance.
func TestIsTrusted(t *testing.T) {
	for actor, want := range map[string]bool{"job": true, "job/1": true, "job+": true, "jobs": false, "pod": false} {
		if IsTrusted([]string{"job"}, actor) != want {
			t.Errorf("%s: %t", actor, !want)
		}
	}
}

// TestIgnoredPaths: ignored fields are not compared, and neither are objects that are ignored as a whole.
func TestIgnoredPaths(t *testing.T) {
	state := func(ip, sum string, secrets int, without ...Path) State {
		objects := []Object{{Resource: "pods", Content: map[string]any{
			"metadata": map[string]any{"name": "a", "namespace": "default", "annotations": map[string]any{"example.com/sum": sum}},
			"status":   map[string]any{"addresses": []any{map[string]any{"ip": ip}}},
		}}}
		for range secrets {
			objects = append(objects, Object{Resource: "secrets", Content: map[string]any{"metadata": map[string]any{"name": "s", "namespace": "default"}}})
		}
		return NewState(objects, without...)
	}
	all := []Path{{"pods", "status.addresses[*].ip"}, {"pods", "metadata.annotations[example.com/sum]"}, {"secrets", ""}}
	for n, want := range []Difference{{Resource: "pods", Path: "metadata.annotations[example.com/sum]"}, {Resource: "pods", Path: "status.addresses[0].ip"}, {Resource: "secrets"}} {
		without := append([]Path{}, all...)
		for i, p := range all {
			if p.covers(want.Resource, want.Path) && (p.Field != "" || want.Path == "") {
				without = append(without[:i], without[i+1:]...)
			}
		}
		err := NewBaseline([]State{state("1", "a", 1, without...)}).Compare(state("2", "b", 2, without...))
		if d, ok := err.(*Difference); !ok || d.Resource != want.Resource || d.Path != want.Path {
			t.Errorf("%d, without %v: %v", n, without, err)
		}
	}
	if err := NewBaseline([]State{state("1", "a", 1, all...)}).Compare(state("2", "b", 2, all...)); err != nil {
		t.Errorf("everything is ignored: %v", err)
	}
}

// TestSecretKeys: the value of a Secret is not shown, also if its key has a dot.
func TestSecretKeys(t *testing.T) {
	state := func(key string) State {
		return NewState([]Object{{Resource: "secrets", Content: map[string]any{
			"metadata": map[string]any{"name": "s", "namespace": "default"}, "data": map[string]any{"tls.crt": key},
		}}})
	}
	err := NewBaseline([]State{state("abc")}).Compare(state("abcd"))
	if err == nil || err.Error() != "secrets default/s: data[tls.crt] is a value (4 characters); without faults a value (3 characters)" {
		t.Errorf("got %v", err)
	}
}
