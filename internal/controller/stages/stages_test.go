package stages

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/stage"
)

// widgetStages select a custom resource; tests interrupt "step" between its writes.
const widgetStages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: step}
spec:
  resourceRef: {apiGroup: example.com/v1, kind: Widget}
  selector: {matchExpressions: [{key: .spec.done, operator: DoesNotExist}]}
  delay: {durationFrom: {jq: {expression: .spec.wait}}}
  steps:
  - patch: {template: "spec: {done: true}"}
  - patch: {subresource: status, root: status, template: "phase: Done"}
`

func testWidget(version string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec,
		"metadata": map[string]any{"name": "w", "namespace": "default", "uid": "w-uid", "resourceVersion": version},
	}}
}

// TestSetStages checks that new stages apply at once to existing objects, and that a stage that stays chosen
// keeps its delay.
func TestSetStages(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go", "late"))
	b.advance(5 * time.Second)
	b.table.setStages(b.now, testSet(t, testStages+`
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: late}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {unheard: "of"}}
  next: {delete: true}
`))
	b.advance(14 * time.Second)
	b.wantNothing()
	b.advance(time.Second)
	j := b.want("act")
	b.table.done(b.now, j, outcome{kind: played, wrote: true, object: testPod(3, "late")})
	b.wantNothing()
	b.table.setStages(b.now, testSet(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: late}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {late: "yes"}}
  next: {delete: true}
`))
	b.want("late")
}

// TestNoStagesLeft checks that a planned stage is dropped when it is removed.
func TestNoStagesLeft(t *testing.T) {
	b := newHarness(t, testStages)
	b.observe(testPod(2, "go"))
	none, err := stage.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.table.setStages(b.now, none)
	b.advance(time.Hour)
	b.wantNothing()
	b.table.setStages(b.now, testSet(t, testStages))
	b.advance(20 * time.Second)
	b.want("act")
}

// TestInterruptedStageContinues checks that a stage that was carried out in part is finished, on the newest
// version, although its selector does not match any more.
func TestInterruptedStageContinues(t *testing.T) {
	b := newHarness(t, widgetStages)
	b.observe(testWidget("5", map[string]any{}))
	j := b.want("step")
	b.table.done(b.now, j, outcome{
		kind: failed, object: testWidget("6", map[string]any{"done": true}), stopped: true, step: 1,
	})
	b.wantNothing() // it waits for the backoff
	b.observe(testWidget("7", map[string]any{"done": true, "other": "x"}))
	b.advance(time.Second)
	j = b.want("step")
	effects, err := j.stages.Play(b.now, j.object, j.decision, nil)
	if err != nil || len(effects.Requests) != 1 || effects.Requests[0].Step != 1 || effects.ResourceVersion != "7" {
		t.Fatalf("got %+v %v", effects, err)
	}
	b.table.done(b.now, j, outcome{kind: played, wrote: true, object: testWidget("8", map[string]any{"done": true})})
	b.advance(time.Hour)
	b.wantNothing()
}

// TestTroubleNamesItsStage checks that a message names the stage once, also if the problem names it already.
func TestTroubleNamesItsStage(t *testing.T) {
	for _, text := range []string{"rejected", "stage ready: rejected"} {
		if got := (&trouble{stage: "ready", text: text}).message(); got != "stage ready: rejected" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestTroubleIsReportedOnce checks that a trouble is reported once, until another one or a success follows.
func TestTroubleIsReportedOnce(t *testing.T) {
	b := newHarness(t, widgetStages)
	var reported []string
	b.table.troubled = func(t trouble) { reported = append(reported, t.text) }
	b.observe(testWidget("5", map[string]any{"wait": "soon"}))
	b.observe(testWidget("6", map[string]any{"wait": "soon", "x": "y"}))
	if len(reported) != 1 {
		t.Fatalf("reported %q", reported)
	}
	b.wantNothing()
	b.observe(testWidget("7", map[string]any{}))
	for i := range 3 {
		j := b.want("step")
		b.table.done(b.now, j, outcome{kind: failed, permanent: true, problem: fmt.Sprintf("no, not at %d:00", i)}) // with a time that the template renders
		b.advance(time.Minute)
	}
	if len(reported) != 2 || reported[1] != "no, not at 0:00" {
		t.Fatalf("reported %q", reported)
	}
}

// TestRejectedAsOutdated checks that an answer that the object has changed or was deleted, if neither is true,
// is a failure like others: it is reported, and the stage waits for a backoff.
func TestRejectedAsOutdated(t *testing.T) {
	b := newHarness(t, widgetStages)
	var reported []string
	b.table.troubled = func(t trouble) { reported = append(reported, t.text) }
	b.observe(testWidget("5", map[string]any{}))
	attempts := 0
	for end := b.now.Add(10 * time.Minute); b.now.Before(end); b.advance(100 * time.Millisecond) {
		j, ok := b.take()
		switch {
		case !ok:
		case j.confirm:
			b.table.done(b.now, j, outcome{kind: found, object: testWidget("5", map[string]any{})})
		default:
			attempts++
			b.table.done(b.now, j, outcome{kind: outdated, problem: "not found"})
		}
	}
	if attempts < 5 || attempts > 40 || len(reported) != 1 {
		t.Errorf("%d attempts in ten minutes, reported %q", attempts, reported)
	}
}

// TestForgetKind checks that the table keeps nothing of a kind that has no stages any more.
func TestForgetKind(t *testing.T) {
	b := newHarness(t, widgetStages)
	w := testWidget("5", map[string]any{})
	b.observe(w)
	b.table.forgetKind(b.now, stage.KindOf(w))
	b.wantEmpty()
}

// TestLastChangeOfOthers checks that, after a restart, delays of custom resources count from the time that the
// objects themselves contain.
func TestLastChangeOfOthers(t *testing.T) {
	w := testWidget("5", map[string]any{})
	w.Object["metadata"].(map[string]any)["managedFields"] = []any{
		map[string]any{"manager": "a", "time": "2026-03-01T11:59:50Z", "fieldsV1": map[string]any{}},
		map[string]any{"manager": "b", "time": "2026-03-01T11:59:40Z"},
	}
	dropManagedFields(w)
	if got := stage.LastChange(w); !got.Equal(start.Add(-10 * time.Second)) {
		t.Errorf("last written at %s", got)
	}
	if f := w.GetManagedFields(); len(f) != 1 || f[0].FieldsV1 != nil {
		t.Errorf("kept %v", f)
	}
	w.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "lastTransitionTime": "2026-03-01T11:59:30Z"}}}
	if got := stage.LastChange(w); !got.Equal(start.Add(-30 * time.Second)) {
		t.Errorf("last changed at %s", got)
	}
}

func TestURL(t *testing.T) {
	e := &StageEngine{}
	for want, c := range map[string]struct {
		place                        place
		namespace, name, subresource string
	}{
		"/api/v1/namespaces/ns/pods/p/status": {place{namespaced: true}, "ns", "p", "status"},
		"/api/v1/nodes/n":                     {place{}, "", "n", ""},
	} {
		kind := stage.KindNode
		if c.place.namespaced {
			kind = stage.KindPod
		}
		at, err := e.placeOf(kind)
		if got := at.url(c.namespace, c.name, c.subresource); err != nil || got != want {
			t.Errorf("got %s, want %s: %v", got, want, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
