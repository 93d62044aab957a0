package stage

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestPreviewEqualsPlay checks that the preview equals what the engine writes.
func TestPreviewEqualsPlay(t *testing.T) {
	set := mustBuiltin(t)
	for name, o := range map[string]Object{
		"new": stagetest.NewPod(), "job": stagetest.NewPod(stagetest.OwnedByJob, stagetest.Running), "sidecar": stagetest.NewPod(sidecar), "gates": stagetest.NewPod(gates),
		"held": stagetest.NewPod(stagetest.Running, stagetest.Deleting, stagetest.WithFinalizer), "gone": stagetest.NewPod(stagetest.Running, stagetest.Deleting), "node": stagetest.NewNode(),
	} {
		t.Run(name, func(t *testing.T) {
			d := set.Decide(stagetest.Start, 1, o, Past{}, Scene{NodeReady: true})
			if !d.Chosen() {
				t.Fatal(d.String())
			}
			played, err := set.Play(stagetest.Start, o, d, stagetest.Facts{})
			if err != nil {
				t.Fatal(err)
			}
			seen, err := set.Preview(stagetest.Start, o, d, stagetest.Facts{})
			if err != nil {
				t.Fatal(err)
			}
			if played.Delete != seen.Delete || played.Delete != (seen.After == nil) {
				t.Fatalf("deleted: %v when played, %v when foreseen, and left is %v", played.Delete, seen.Delete, seen.After)
			}
			if played.Object == nil {
				return
			}
			if got, want := EquivalenceKey(seen.After), EquivalenceKey(played.Object); got != want {
				t.Errorf("(-played +foreseen)\n%s", cmp.Diff(want, got))
			}
		})
	}
}

// TestOptionsAreWhatDecideDraws checks that the shares equal the frequencies of the draws, and that
// the delays lie within the bounds.
func TestOptionsAreWhatDecideDraws(t *testing.T) {
	set := mustCompile(t, podStage("a", "weight: 1\n  delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 5000}")+
		podStage("b", "weight: 3")+podStage("c", "weight: 0"))
	const n = 4000
	drawn := map[string]int{}
	var options []Option
	for i := range n {
		o := stagetest.NewPod(labelled, func(p *corev1.Pod) { p.UID = types.UID(fmt.Sprint("uid-", i)) })
		options = set.Options(stagetest.Start, 7, o, Past{}, Scene{})
		d := set.Decide(stagetest.Start, 7, o, Past{}, Scene{})
		drawn[d.Stage]++
		for _, option := range options {
			wait := d.Due.Sub(stagetest.Start)
			if option.Stage == d.Stage && (wait < option.Least || wait > option.Most) {
				t.Fatalf("%s waits %s, outside of %s to %s", d.Stage, wait, option.Least, option.Most)
			}
		}
	}
	for _, option := range options {
		if got := float64(drawn[option.Stage]) / n; math.Abs(got-option.Share) > 0.03 {
			t.Errorf("%s: drawn %.3f of the time, its share is %.3f", option.Stage, got, option.Share)
		}
	}
}

func TestLifeAndDeletion(t *testing.T) {
	set := mustBuiltin(t)
	live := func(o Object, deleteAfter time.Duration) string {
		transitions, end := set.Life(Created(o, stagetest.Start), LifeOptions{
			Start: stagetest.Start, For: time.Hour, MaxSteps: 20, DeleteAfter: deleteAfter, Facts: stagetest.Facts{}, Scene: Scene{NodeReady: true},
		})
		var out []string
		for _, b := range transitions {
			out = append(out, fmt.Sprint(b.At, " ", b.Decision.Stage))
		}
		return strings.Join(append(out, end), "; ")
	}
	pod := &corev1.Pod{}
	pod.Name = "web"
	for name, c := range map[string]struct {
		pod         Object
		deleteAfter time.Duration
		want        string
	}{
		"left alone":    {pod, -1, "0s pod-ready; nothing: no stage matches"},
		"deleted":       {pod, time.Minute, "0s pod-ready; 1m0s ; 1m0s pod-delete; the object was deleted"},
		"after the end": {pod, 2 * time.Hour, "0s pod-ready; nothing: no stage matches"},
		"held":          {stagetest.NewPod(stagetest.WithFinalizer), time.Minute, "0s pod-ready; 1m0s ; 1m0s pod-terminate; nothing: no stage matches"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := live(c.pod, c.deleteAfter); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestTreeIsBounded uses a set in which every stage can follow every other.
func TestTreeIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range 6 {
		text.WriteString(podStage(fmt.Sprint("s", i), "delay: {durationMilliseconds: 1000}\n  steps: [{patch: {subresource: status, root: status, template: 'message: \"{{ .status.message }}x\"'}}]"))
	}
	set := mustCompile(t, strings.ReplaceAll(text.String(), "next: {delete: true}", ""))
	var count func([]Branch) int
	count = func(all []Branch) int {
		n := len(all)
		for i := range all {
			n += count(all[i].Next)
		}
		return n
	}
	branches := set.Tree(stagetest.NewPod(labelled), TreeOptions{Start: stagetest.Start, Facts: stagetest.Facts{}, MaxDepth: 5, MaxNodes: 100})
	if n := count(branches); n < 50 || n > 110 {
		t.Errorf("%d branches", n)
	}
}

func TestChanges(t *testing.T) {
	before := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a", "resourceVersion": "1", "labels": map[string]any{"a.b/c": "x"}},
		"status": map[string]any{
			"phase": "Old", "gone": int64(1),
			"conditions": []any{map[string]any{"type": "Ready", "status": "False"}, map[string]any{"type": "X", "status": "True"}},
		},
	}}
	after := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a", "resourceVersion": "2", "labels": map[string]any{"a.b/c": "y"}},
		"status": map[string]any{
			"phase": "New", "list": []any{"a"}, "text": "two\nlines",
			"conditions": []any{map[string]any{"type": "X", "status": "True"}, map[string]any{"type": "Ready", "status": "True"}},
		},
	}}
	var got []string
	for _, c := range Changes(before, after) {
		got = append(got, c.String())
	}
	want := []string{
		"metadata.labels[a.b/c]: x -> y",
		"status.conditions[Ready].status: False -> True",
		"status.gone: 1 -> (gone)",
		"status.list[0]: a",
		"status.phase: Old -> New",
		`status.text: "two\nlines"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
