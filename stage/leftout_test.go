package stage

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// drawStage returns a stage of pods with the label go, with this weight, delay and effect.
func drawStage(name string, weight int, more string) string {
	return fmt.Sprintf(`
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: %s}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {go: "yes"}}
  weight: %d
  %s
`, name, weight, more)
}

const (
	idleStep  = `steps: [{patch: {type: merge, root: metadata, template: "labels: {go: 'yes'}"}}]`
	phaseNext = `next: {statusTemplate: "phase: Running"}`
	otherNext = `next: {statusTemplate: "message: other"}`
	badDelay  = `delay: {durationFrom: {jq: {expression: '"soon"'}}}`
)

// TestLeftOut checks that a stage that would change nothing and one whose delay cannot be read do
// not take part in the draw. Decide, Options and Life agree, and their results do not depend on the
// weights of those left out.
func TestLeftOut(t *testing.T) {
	set := mustCompile(t, drawStage("idle", 1000, idleStep)+drawStage("idle-late", 1000, "delay: {durationMilliseconds: 3600000}\n  "+idleStep)+
		drawStage("held", 1000, badDelay+"\n  "+otherNext)+drawStage("a", 3, phaseNext)+drawStage("b", 1, otherNext))
	p := stagetest.NewPod(labelled)
	const draws = 2000
	chosen := map[string]int{}
	for seed := range uint64(draws) {
		d := set.Decide(stagetest.Start, seed, p, Past{}, Scene{})
		chosen[d.Stage]++
		if d.Reason.Matching != 5 || !d.Due.Equal(stagetest.Start) {
			t.Fatalf("%s: %+v", d.String(), d)
		}
		if again := set.Decide(stagetest.Start, seed, p, Past{Stage: d.Stage, Since: d.Since, IdleAt: "10", Idle: d.idle}, Scene{}); again.Stage != d.Stage {
			t.Fatalf("%s, and asked again %s", d.Stage, again.Stage)
		}
	}
	if len(chosen) != 2 || math.Abs(float64(chosen["a"])/draws-0.75) > 0.03 {
		t.Errorf("drawn: %v", chosen)
	}
	for _, o := range set.Options(stagetest.Start, 1, p, Past{}, Scene{}) {
		want := map[string]float64{"a": 0.75, "b": 0.25}[o.Stage]
		if o.Share != want || o.Idle != strings.HasPrefix(o.Stage, "idle") || o.Held != (o.Stage == "held") {
			t.Errorf("%s: share %v, idle %v, held %v", o.Stage, o.Share, o.Idle, o.Held)
		}
	}
	for seed := range uint64(50) {
		transitions, end := set.Life(p, LifeOptions{Start: stagetest.Start, Seed: seed, For: time.Hour, MaxSteps: 5, DeleteAfter: -1})
		if len(transitions) == 0 || transitions[0].Decision.Stage != "a" && transitions[0].Decision.Stage != "b" {
			t.Fatalf("seed %d: %v, %s", seed, transitions, end)
		}
	}
}

// TestEveryStageLeftOut checks the decision when all matching stages are left out: it reports this,
// and an error has precedence over a stage without effect.
func TestEveryStageLeftOut(t *testing.T) {
	p := stagetest.NewPod(labelled)
	for name, c := range map[string]struct {
		yaml string
		code Code
	}{
		"idle":          {drawStage("a", 1, idleStep) + drawStage("b", 1, idleStep), NothingToDo},
		"idle and held": {drawStage("a", 1, idleStep) + drawStage("b", 1, badDelay+"\n  "+otherNext), Held},
	} {
		d := mustCompile(t, c.yaml).Decide(stagetest.Start, 1, p, Past{}, Scene{})
		if d.Chosen() || d.Reason.Code != c.code || d.Reason.Matching != 2 || len(d.LeftOut) != 1 {
			t.Errorf("%s: %s, %+v", name, d.String(), d.LeftOut)
		}
	}
}

// TestIdleIsAboutTheDueTime checks stages that are never left out: one that writes the time, which
// has an effect when it is due although it has none at the time of the decision; one that records
// an event; and one that requests an address.
func TestIdleIsAboutTheDueTime(t *testing.T) {
	for name, step := range map[string]string{
		"time":    "delay: {durationMilliseconds: 60000}\n  next: {statusTemplate: 'startTime: {{ Now | Quote }}'}",
		"event":   "steps: [{event: {reason: R, message: m}}]",
		"address": "next: {statusTemplate: 'phase: {{ PodIP | len | ternary \"Pending\" \"Pending\" }}'}",
	} {
		set := mustCompile(t, drawStage("a", 1000, step)+drawStage("b", 1, otherNext))
		p := stagetest.NewPod(labelled, func(p *corev1.Pod) { at := metav1.NewTime(stagetest.Start); p.Status.StartTime = &at })
		if d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{}); d.Stage != "a" || len(d.LeftOut) != 0 {
			t.Errorf("%s: %s", name, d.String())
		}
	}
}

// TestWriteBudget checks that stages that undo one another write WriteBurst times, then once every
// WriteEvery, and that the budget recovers after a pause.
func TestWriteBudget(t *testing.T) {
	set := mustCompile(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: up}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}
  next: {statusTemplate: "phase: Running"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: down}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}
  next: {statusTemplate: "phase: Pending"}
`)
	transitions, _ := set.Life(stagetest.NewPod(), LifeOptions{Start: stagetest.Start, For: 10 * time.Second, MaxSteps: 1000, DeleteAfter: -1})
	if got, want := len(transitions), WriteBurst+10; got != want {
		t.Errorf("%d writes in 10 s, want %d", got, want)
	}
	for i, b := range transitions {
		if b.Decision.Slowed != (i >= WriteBurst) {
			t.Errorf("write %d at %s: slowed %v", i, b.At, b.Decision.Slowed)
		}
	}
	past := Past{Paid: stagetest.Start.Add(WriteBurst * WriteEvery)}
	if d := set.Decide(stagetest.Start.Add(WriteBurst*WriteEvery), 1, stagetest.NewPod(), past, Scene{}); d.Slowed {
		t.Error("the budget is spent for good")
	}
}

const halves = head + `
spec:
  resourceRef: {apiGroup: example.com/v1, kind: Widget}
  selector: {matchExpressions: [{key: .spec.done, operator: DoesNotExist}, {key: .status.phase, operator: In, values: [New]}]}
  steps:
  - patch: {template: "spec: {done: true}"}
  - patch: {subresource: status, root: status, template: "phase: Working"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: gone}
spec:
  resourceRef: {apiGroup: example.com/v1, kind: Widget}
  selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}
  next: {finalizers: {empty: true}}
`

// TestResumeIsDecidedAgain checks that the second half of a stage is played on the newest object
// only if the stage would match without the effects of its first half.
func TestResumeIsDecidedAgain(t *testing.T) {
	set := mustCompile(t, halves)
	begun := widget(t, "spec: {}\nstatus: {phase: New}")
	done := widget(t, "spec: {done: true}\nstatus: {phase: New}")
	d := set.Decide(stagetest.Start, 1, begun, Past{}, Scene{})
	past := Past{Resume: d.Stopped(1, begun, done)}
	deletedAt := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		at := metav1.NewTime(stagetest.Start)
		u.SetDeletionTimestamp(&at)
		u.SetFinalizers([]string{"example.com/hold"})
		return u
	}
	for name, c := range map[string]struct {
		now  *unstructured.Unstructured
		want string
	}{
		"as it was left":           {done, "s goes on"},
		"something else changed":   {widget(t, "spec: {done: true, other: x}\nstatus: {phase: New, n: 1}"), "s goes on"},
		"moved on by another":      {widget(t, "spec: {done: true}\nstatus: {phase: Finished}"), "nothing: no stage matches"},
		"first half undone":        {widget(t, "spec: {}\nstatus: {phase: New}"), "s goes on"},
		"first half otherwise":     {widget(t, "spec: {done: false}\nstatus: {phase: New}"), "nothing: no stage matches"},
		"deletion was requested":   {deletedAt(done.DeepCopy()), "gone after 0s: the only stage that matches"},
		"deleted and moved on too": {deletedAt(widget(t, "spec: {done: true}\nstatus: {phase: Finished}")), "gone after 0s: the only stage that matches"},
	} {
		d := set.Decide(stagetest.Start, 1, c.now, past, Scene{})
		if d.String() != c.want {
			t.Errorf("%s: %s, want %s", name, d.String(), c.want)
		}
		after := past
		after.Decided(&d)
		if (after.Resume.Stage == "") != (c.want != "s goes on") {
			t.Errorf("%s: remembers %+v", name, after.Resume)
		}
	}
	edited := mustCompile(t, strings.Replace(halves, "phase: Working", "phase: Edited", 1))
	if d := edited.Decide(stagetest.Start, 1, done, past, Scene{}); d.Chosen() {
		t.Errorf("a stage that was edited since goes on: %s", d.String())
	}
	// The stage ends the lifecycle and was started on an object that was being deleted.
	ending := deletedAt(begun.DeepCopy())
	past.Resume = d.Stopped(1, ending, deletedAt(done.DeepCopy()))
	if d := set.Decide(stagetest.Start, 1, deletedAt(done.DeepCopy()), past, Scene{}); d.String() != "s goes on" {
		t.Errorf("got %s", d.String())
	}
}

// TestOverrun checks that a stage that exceeds its budget is reported, is not chosen, even with a
// negated operator, and does not affect other stages.
func TestOverrun(t *testing.T) {
	for _, operator := range []string{"operator: Exists", "operator: DoesNotExist", "operator: In, values: [x]", "operator: NotIn, values: [x]"} {
		set := mustCompile(t, drawStage("a", 1, phaseNext)+fmt.Sprintf(`
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: hungry}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: 'reduce range(60) as $i ([1]; [.,.])', %s}]}
  next: {delete: true}
`, operator))
		d := set.Decide(stagetest.Start, 1, stagetest.NewPod(labelled), Past{}, Scene{})
		if d.Stage != "a" || d.Reason.Matching != 1 || len(d.Overran) != 1 || d.Overran[0].Stage != "hungry" {
			t.Errorf("%s: %s %+v", operator, d.String(), d.Overran)
		}
		for _, e := range set.Explain(stagetest.NewPod(labelled), Scene{}) {
			if e.Stage == "hungry" && !strings.Contains(e.Problem, "does too much") {
				t.Errorf("explained: %+v", e)
			}
		}
	}
}
