package verdict

import (
	"slices"
	"testing"
	"time"
)

// TestCompareGenerations: status.observedGeneration must reach metadata.generation where it does without faults. The
// numbers themselves are not compared.
func TestCompareGenerations(t *testing.T) {
	state := func(generation, observed int64, without ...Path) State {
		content := map[string]any{"metadata": map[string]any{"name": "web", "namespace": "default", "generation": generation}}
		if observed >= 0 {
			content["status"] = map[string]any{"observedGeneration": observed}
		}
		return NewState([]Object{{Resource: "deployments.apps", Content: content}}, without...)
	}
	ignored := Path{"deployments.apps", "status.observedGeneration"}
	for name, c := range map[string]struct {
		without []State
		got     State
		fails   bool
	}{
		"equal":                         {[]State{state(2, 2)}, state(3, 3), false},
		"behind":                        {[]State{state(2, 2)}, state(3, 2), true},
		"not set":                       {[]State{state(2, 2)}, state(3, -1), false},
		"ignored":                       {[]State{state(2, 2, ignored)}, state(3, 2, ignored), false},
		"behind without faults":         {[]State{state(2, 1)}, state(3, 2), false},
		"behind once without faults":    {[]State{state(2, 2), state(2, 1)}, state(3, 2), false},
		"never set without faults":      {[]State{state(2, -1)}, state(3, 2), false},
		"the object does not exist":     {[]State{state(2, 2)}, State{}, false},
		"no such object without faults": {[]State{{}}, state(3, 2), false},
	} {
		b := NewBaseline(c.without)
		err := b.CompareGenerations(c.got)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if d, ok := err.(*Difference); c.fails && (!ok || d.Resource != "deployments.apps" || d.Path != "status.observedGeneration") {
			t.Errorf("%s: %#v", name, err)
		}
		if err := b.Compare(c.got); err != nil && len(c.got) > 0 && len(c.without[0]) > 0 {
			t.Errorf("%s: the final state differs: %v", name, err)
		}
		if c.fails && !b.ExpectsGenerations() {
			t.Errorf("%s: the baseline expects nothing", name)
		}
	}
	var none *Baseline
	if none.CompareGenerations(state(3, 2)) != nil || none.ExpectsGenerations() || none.NotCompared() != nil {
		t.Error("without a baseline, something is expected")
	}
}

// TestNotCompared: what differs between the runs without faults is listed, each field once.
func TestNotCompared(t *testing.T) {
	state := func(names []string, drawn string, order ...any) State {
		objects := []Object{{Resource: "webs.example.com", Content: map[string]any{
			"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"args": order},
			"status": map[string]any{"list": []any{map[string]any{"id": drawn + "1"}, map[string]any{"id": drawn + "2"}}, "beat": "1"},
		}}}
		for _, name := range names {
			objects = append(objects, Object{Resource: "configmaps", Content: map[string]any{"metadata": map[string]any{"name": name, "generateName": "x-", "namespace": "default"}}})
		}
		return NewState(objects)
	}
	b := NewBaseline([]State{state([]string{"x-1"}, "a", "1", "2"), state([]string{"x-2", "x-3"}, "b", "2", "1")})
	b.MaskPeriodic([]Periodic{{Resource: "webs.example.com", Paths: []string{"status.beat"}}})
	want := []string{"the number of configmaps default/x-*", "the order of webs.example.com spec.args", "webs.example.com status.beat", "webs.example.com status.list[*].id"}
	if got := b.NotCompared(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestDifferenceTimeout: a run with another final state continues for two of the longest periods.
func TestDifferenceTimeout(t *testing.T) {
	for _, c := range []struct {
		periods []time.Duration
		want    time.Duration
	}{{nil, 10}, {[]time.Duration{3}, 10}, {[]time.Duration{3, 7}, 14}} {
		var all []Periodic
		for _, p := range c.periods {
			all = append(all, Periodic{Period: p * time.Second})
		}
		if got := DifferenceTimeout(10*time.Second, all); got != c.want*time.Second {
			t.Errorf("%v: %s", c.periods, got)
		}
	}
}
