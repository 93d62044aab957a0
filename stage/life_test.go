package stage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// counting returns a stage that appends a character to the message of each pod.
func counting(name, mark, more string) string {
	return "---\n" + strings.Replace(head, "name: s", "name: "+name, 1) +
		`spec: {resourceRef: {kind: Pod}, selector: {}, ` + more + `, next: {statusTemplate: 'message: {{ if .status.message }}{{ .status.message }}{{ end }}` + mark + `'}}` + "\n"
}

func lifeText(transitions []Transition, end string) string {
	var out []string
	for _, x := range transitions {
		name := x.Decision.Stage
		if name == "" {
			name = "DELETE"
		}
		text := fmt.Sprintf("%s %s", x.At, name)
		if x.Share != 0 && x.Share != 1 {
			text += fmt.Sprintf(" (%.2f)", x.Share)
		}
		if x.Problem != "" {
			text += " failed"
		}
		if x.After == nil {
			text += " gone"
		}
		out = append(out, text)
	}
	return strings.Join(append(out, end), "; ")
}

// TestHowALifecycleEnds checks the last sentence of a lifecycle, and the times of its transitions.
func TestHowALifecycleEnds(t *testing.T) {
	every5s := counting("s", "x", "delay: {durationMilliseconds: 5000}")
	for name, c := range map[string]struct {
		stages string
		opts   LifeOptions
		want   string
	}{
		"no stage matches": {podStage("s", ""), LifeOptions{For: time.Hour, MaxSteps: 9, DeleteAfter: -1}, "nothing: no stage matches"},
		"too many stages": {every5s, LifeOptions{For: time.Hour, MaxSteps: 3, DeleteAfter: -1},
			"5s s; 10s s; 15s s; the limit of 3 stages is reached; s would be next, at 20s"},
		"no stage at all": {every5s, LifeOptions{For: time.Hour, DeleteAfter: -1}, "the limit of 0 stages is reached; s would be next, at 5s"},
		"no time left": {every5s, LifeOptions{For: 12 * time.Second, MaxSteps: 9, DeleteAfter: -1},
			"5s s; 10s s; s is due at 15s, after the limit of 12s"},
		"due at the very end": {every5s, LifeOptions{For: 10 * time.Second, MaxSteps: 9, DeleteAfter: -1},
			"5s s; 10s s; s is due at 15s, after the limit of 10s"},
		"deleted": {every5s, LifeOptions{For: 12 * time.Second, MaxSteps: 9, DeleteAfter: 7 * time.Second},
			"5s s; 7s DELETE; 10s s; s is due at 15s, after the limit of 12s"},
		"deleted at the start": {every5s, LifeOptions{For: 6 * time.Second, MaxSteps: 9},
			"0s DELETE; 5s s; s is due at 10s, after the limit of 6s"},
		"deleted as the stage is due": {every5s, LifeOptions{For: 6 * time.Second, MaxSteps: 9, DeleteAfter: 5 * time.Second},
			"5s DELETE; 5s s; s is due at 10s, after the limit of 6s"},
		"template fails": {counting("s", `{{ fail "no" }}`, "weight: 0"), LifeOptions{For: time.Hour, MaxSteps: 9, DeleteAfter: -1},
			"0s s failed; s cannot be played on this object"},
		"the stage deletes": {"---\n" + head + "spec: {resourceRef: {kind: Pod}, selector: {}, next: {delete: true}}", LifeOptions{For: time.Hour, MaxSteps: 9, DeleteAfter: -1},
			"0s s gone; the object was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.Start, c.opts.Facts = stagetest.Start, stagetest.Facts{}
			if got := lifeText(mustCompile(t, c.stages).Life(stagetest.NewPod(), c.opts)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestDeletionWithoutAGracePeriodEndsTheLifecycle checks that an object that the server removes at once has no further
// transition.
func TestDeletionWithoutAGracePeriodEndsTheLifecycle(t *testing.T) {
	set := mustCompile(t, counting("s", "x", "delay: {durationMilliseconds: 5000}"))
	p := stagetest.NewPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	got := lifeText(set.Life(p, LifeOptions{Start: stagetest.Start, For: time.Minute, MaxSteps: 9, DeleteAfter: time.Second}))
	if want := "1s DELETE gone; the object was deleted"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestLifecycleWithDraws checks that the share of each transition is that of the draw.
func TestLifecycleWithDraws(t *testing.T) {
	set := mustCompile(t, counting("a", "a", "weight: 3")+counting("b", "b", "weight: 1"))
	transitions, _ := set.Life(stagetest.NewPod(), LifeOptions{Start: stagetest.Start, Seed: 5, For: time.Hour, MaxSteps: 40, DeleteAfter: -1})
	drawn := map[string]int{}
	for _, x := range transitions {
		drawn[x.Decision.Stage]++
		if want := map[string]float64{"a": 0.75, "b": 0.25}[x.Decision.Stage]; x.Share != want {
			t.Errorf("%s has the share %v, want %v", x.Decision.Stage, x.Share, want)
		}
	}
	if len(transitions) != 40 || drawn["a"] <= drawn["b"] || drawn["b"] == 0 {
		t.Errorf("drawn: %v", drawn)
	}
}

// TestLifecyclesAreRepeatable checks lifecycles of random pods: one seed gives one lifecycle, times never run
// backwards, each transition begins where the one before ended, and the first object stays as it was.
func TestLifecyclesAreRepeatable(t *testing.T) {
	sets := builtinSets(t)
	rapid.Check(t, func(t *rapid.T) {
		set := sets[rapid.SampledFrom([]string{"fast", "general"}).Draw(t, "set")]
		p := stagetest.DrawPod(t)
		before := p.DeepCopy()
		opts := LifeOptions{
			Start: stagetest.Start, Seed: rapid.Uint64().Draw(t, "seed"), For: time.Hour, MaxSteps: 12,
			DeleteAfter: time.Duration(rapid.IntRange(-1, 60).Draw(t, "delete after")) * time.Second,
			Facts:       stagetest.Facts{}, Scene: Scene{NodeReady: rapid.Bool().Draw(t, "ready")},
		}
		transitions, end := set.Life(p, opts)
		if diff := cmp.Diff(before, p); diff != "" {
			t.Fatalf("the pod has changed: %s", diff)
		}
		if again, endAgain := set.Life(p, opts); lifeText(again, endAgain) != lifeText(transitions, end) {
			t.Fatalf("%s\nand again\n%s", lifeText(transitions, end), lifeText(again, endAgain))
		}
		var at time.Duration
		var last Object = p
		for i, x := range transitions {
			if x.At < at || x.At > opts.For || x.Before != last {
				t.Fatalf("transition %d at %s after %s, from the object before: %v", i, x.At, at, x.Before == last)
			}
			at, last = x.At, x.After
		}
		if (last == nil) != (end == "the object was deleted") || end == "" {
			t.Fatalf("the object is gone: %v; %s", last == nil, end)
		}
	})
}

// TestTreeFollowsEveryPath checks the chances and the ends of the branches.
func TestTreeFollowsEveryPath(t *testing.T) {
	text := counting("a", "a", `selector: {matchExpressions: [{key: .status.message, operator: DoesNotExist}]}, weight: 3`) +
		counting("b", "b", `selector: {matchExpressions: [{key: .status.message, operator: DoesNotExist}]}, weight: 1`) +
		counting("c", "c", `selector: {matchExpressions: [{key: .status.message, operator: In, values: [a]}]}`)
	set := mustCompile(t, strings.ReplaceAll(text, "selector: {}, ", ""))
	branches := set.Tree(stagetest.NewPod(), TreeOptions{Start: stagetest.Start, MaxDepth: 5, MaxNodes: 100})
	if len(branches) != 2 || branches[0].Stage() != "a" || branches[1].Stage() != "b" {
		t.Fatalf("got %+v", branches)
	}
	a, b := branches[0], branches[1]
	if a.Chance != 0.75 || b.Chance != 0.25 || len(b.Next) != 0 || len(a.Next) != 1 {
		t.Fatalf("chances %v and %v, next %d and %d", a.Chance, b.Chance, len(a.Next), len(b.Next))
	}
	if c := a.Next[0]; c.Stage() != "c" || c.Chance != 0.75 || c.After.(*corev1.Pod).Status.Message != "ac" {
		t.Errorf("got %+v", c)
	}
}

// TestTreeMarksItsEnds checks the marks of branches that come back to a state, that are cut, that fail, and after
// which the object is gone.
func TestTreeMarksItsEnds(t *testing.T) {
	toggle := func(name, from, to string) string {
		return "---\n" + strings.Replace(head, "name: s", "name: "+name, 1) + `spec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{key: .status.phase, operator: In, values: [` + from + `]}]}, next: {statusTemplate: "phase: ` + to + `"}}` + "\n"
	}
	tree := func(text string, depth, nodes int) []Branch {
		return mustCompile(t, text).Tree(stagetest.NewPod(), TreeOptions{Start: stagetest.Start, MaxDepth: depth, MaxNodes: nodes})
	}
	there := toggle("there", "Pending", "Running")
	both := there + toggle("back", "Running", "Pending")
	if b := tree(both, 5, 100); len(b) != 1 || len(b[0].Next) != 1 || !b[0].Next[0].Again || len(b[0].Next[0].Next) != 0 {
		t.Errorf("a state that comes back: %+v", b)
	}
	if b := tree(both, 1, 100); len(b) != 1 || !b[0].Cut || len(b[0].Next) != 0 {
		t.Errorf("too deep: %+v", b)
	}
	if b := tree(there, 1, 100); len(b) != 1 || b[0].Cut {
		t.Errorf("nothing follows, so nothing is cut: %+v", b)
	}
	if b := tree(both, 5, 0); len(b) != 1 || !b[0].Cut {
		t.Errorf("too many nodes: %+v", b)
	}
	if b := tree(counting("s", `{{ fail "no" }}`, "weight: 0"), 5, 100); len(b) != 1 || b[0].Problem == "" || b[0].After != b[0].Before {
		t.Errorf("a template that fails: %+v", b)
	}
	if b := tree(head+"spec: {resourceRef: {kind: Pod}, selector: {}, next: {delete: true}}", 5, 100); len(b) != 1 || b[0].After != nil || len(b[0].Next) != 0 {
		t.Errorf("a delete: %+v", b)
	}
}
