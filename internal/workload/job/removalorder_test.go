package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestByRemovalOrder lists pods in removal order, each before the next.
func TestByRemovalOrder(t *testing.T) {
	pods := []*corev1.Pod{
		newPod(0, "P"), newPod(1, "U"), newPod(2, "R ready"), // on no node
		newPod(3, "P node"), newPod(4, "U node"),
		newPod(5, "R node restarts=3"), newPod(6, "R node restarts=1 restarts=2"), newPod(7, "R node age=5"), newPod(8, "R node age=9"),
		newPod(9, "R node ready age=5"), newPod(10, "R node ready age=9"), newPod(11, "R node ready age=9"),
		readyFor(newPod(12, "R node ready restarts=9"), 5), readyFor(newPod(13, "R node ready"), 9),
	}
	for i, a := range pods {
		for k, b := range pods {
			if got, want := byRemovalOrder(a, b), i-k; got > 0 != (want > 0) || got < 0 != (want < 0) {
				t.Errorf("%s and %s: %d", a.Name, b.Name, got)
			}
		}
	}
}

func readyFor(p *corev1.Pod, seconds int) *corev1.Pod {
	podCondition(p, corev1.PodReady).LastTransitionTime = metav1.NewTime(noon.Add(-time.Duration(seconds) * time.Second))
	return p
}

// TestByRemovalOrderIsTotal checks that the order is total, antisymmetric and transitive.
func TestByRemovalOrderIsTotal(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) *corev1.Pod {
		words := rapid.SampledFrom([]string{"P", "R", "U", "R ready", "P ready"}).Draw(t, "phase")
		if rapid.Bool().Draw(t, "node") {
			words += " node"
		}
		words += fmt.Sprintf(" restarts=%d age=%d", rapid.IntRange(0, 2).Draw(t, "restarts"), rapid.IntRange(0, 2).Draw(t, "age"))
		p := newPod(rapid.IntRange(0, 5).Draw(t, "n"), words)
		if rapid.Bool().Draw(t, "no time") {
			p.CreationTimestamp = metav1.Time{}
		}
		if isReady(p) && rapid.Bool().Draw(t, "since") {
			readyFor(p, rapid.IntRange(0, 2).Draw(t, "ready"))
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw.Draw(t, "a"), draw.Draw(t, "b"), draw.Draw(t, "c")
		ab, ba, bc, ac := byRemovalOrder(a, b), byRemovalOrder(b, a), byRemovalOrder(b, c), byRemovalOrder(a, c)
		if byRemovalOrder(a, a) != 0 || ab > 0 != (ba < 0) || ab == 0 != (ba == 0) {
			t.Fatalf("a b %d, b a %d", ab, ba)
		}
		if ab <= 0 && bc <= 0 && ac > 0 || ab < 0 && bc <= 0 && ac >= 0 {
			t.Fatalf("a b %d, b c %d, a c %d", ab, bc, ac)
		}
		if ab == 0 && a.Name != b.Name {
			t.Fatal("two different pods compare as equal")
		}
	})
}

// TestRemovalTakesTheFirst checks that no removed pod comes after a kept one in removal order, and that the
// plan does not reorder its input.
func TestRemovalTakesTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pods []*corev1.Pod
		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			pods = append(pods, newPod(i, rapid.SampledFrom([]string{"P", "R", "R node", "R node ready", "R node restarts=2"}).Draw(t, "pod")))
		}
		before := slices.Clone(pods)
		parallelism := rapid.IntRange(0, 12).Draw(t, "parallelism")
		d := Plan(noon, State{Job: newJob(fmt.Sprintf("p=%d c=99 started=9", parallelism)), Pods: pods, Limits: atOnce()})
		if !slices.Equal(before, pods) {
			t.Fatal("the plan has reordered its input")
		}
		gone := map[string]bool{}
		for _, a := range d.Actions {
			if a.Verb == "patch" {
				gone[a.Object.GetName()] = true
			}
		}
		if len(gone) != max(0, len(pods)-parallelism) {
			t.Fatalf("%d of %d are removed, parallelism %d", len(gone), len(pods), parallelism)
		}
		for _, a := range pods {
			for _, b := range pods {
				if gone[a.Name] && !gone[b.Name] && byRemovalOrder(a, b) > 0 {
					t.Fatalf("%s is removed, %s is kept", a.Name, b.Name)
				}
			}
		}
	})
}
