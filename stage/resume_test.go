package stage

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// TestUndone checks what an object is without the writes of a stage: fields that still are as the stage left them
// become what they were, and what another client wrote since stays.
func TestUndone(t *testing.T) {
	for name, c := range map[string]struct{ before, after, now, want string }{
		"changed by the stage":              {`{"a":1}`, `{"a":2}`, `{"a":2}`, `{"a":1}`},
		"added by the stage":                {`{}`, `{"a":2}`, `{"a":2}`, `{}`},
		"removed by the stage":              {`{"a":1}`, `{}`, `{}`, `{"a":1}`},
		"added, and another field since":    {`{}`, `{"a":2}`, `{"a":2,"b":3}`, `{"b":3}`},
		"changed again since":               {`{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":3}`},
		"removed since":                     {`{"a":1}`, `{"a":2}`, `{}`, `{}`},
		"removed by the stage, added since": {`{"a":1}`, `{}`, `{"a":5}`, `{"a":5}`},
		"nested":                            {`{"s":{"a":1,"b":1}}`, `{"s":{"a":2,"b":1}}`, `{"s":{"a":2,"b":7}}`, `{"s":{"a":1,"b":7}}`},
		"nested mapping removed":            {`{"s":{"a":1},"t":1}`, `{"t":1}`, `{"t":2}`, `{"s":{"a":1},"t":2}`},
		"list of the stage":                 {`{"l":[1]}`, `{"l":[1,2]}`, `{"l":[1,2],"x":1}`, `{"l":[1],"x":1}`},
		"list that another client extended": {`{"l":[1]}`, `{"l":[1,2]}`, `{"l":[1,2,3]}`, `{"l":[1,2,3]}`},
		"another type since":                {`{"a":{"b":1}}`, `{"a":{"b":2}}`, `{"a":"x"}`, `{"a":"x"}`},
		"nothing written":                   {`{"a":1}`, `{"a":1}`, `{"a":2,"b":1}`, `{"a":2,"b":1}`},
	} {
		got := undone(fromJSON(t, c.now), fromJSON(t, c.before), fromJSON(t, c.after))
		if diff := cmp.Diff(fromJSON(t, c.want), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// TestUndoneOfRandomObjects checks that the object right after the stage becomes the object before it, and that
// nothing is undone where the stage wrote nothing.
func TestUndoneOfRandomObjects(t *testing.T) {
	object := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b/c", "~", "0"}), drawJSON(2), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		before, after := object.Draw(t, "before"), object.Draw(t, "after")
		if got := undone(after, before, after); !cmp.Equal(got, any(before)) {
			t.Fatalf("%s", cmp.Diff(any(before), got))
		}
		text := fmt.Sprint(before, after)
		now := object.Draw(t, "now")
		if got, _ := undone(now, before, before).(map[string]any); len(got) < len(now) {
			for key, value := range now {
				if _, kept := got[key]; !kept && value != nil {
					t.Fatalf("%q is lost: %v of %v", key, got, now)
				}
			}
		}
		undone(now, before, after)
		if again := fmt.Sprint(before, after); again != text {
			t.Fatalf("the arguments became %s, were %s", again, text)
		}
	})
}

// twoWrites is a stage of two requests whose first one makes its own selector fail.
const twoWrites = `  selector: {matchExpressions: [{key: .status.phase, operator: DoesNotExist}]}
  steps:
  - patch: {subresource: status, root: status, template: "phase: Up"}
  - patch: {root: metadata, template: "labels: {up: 'yes'}"}`

// TestResumeAfterTheFirstOfTwoWrites checks when a stage that failed in the middle continues with its second write.
func TestResumeAfterTheFirstOfTwoWrites(t *testing.T) {
	stageText := head + "spec:\n  resourceRef: {apiGroup: example.com/v1, kind: Widget}\n" + twoWrites
	set := mustCompile(t, stageText)
	on, half := widget(t, ""), widget(t, "status: {phase: Up}")
	half.SetResourceVersion("8")
	began := set.Decide(stagetest.Start, 1, on, Past{}, Scene{})
	deleting := metav1.NewTime(stagetest.Start)
	for name, c := range map[string]struct {
		set    *Set
		now    func(o *unstructured.Unstructured)
		resume func(r *Resume)
		want   bool
	}{
		"the second write failed":      {want: true},
		"another client added a label": {now: func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"x": "y"}) }, want: true},
		"another client set the phase": {now: func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "Down", "status", "phase")
		}},
		"deletion was requested":        {now: func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&deleting) }},
		"the stage is another one":      {set: mustCompile(t, stageText+"\n  weight: 7")},
		"the stage is gone":             {set: mustCompile(t, widgetStage("  next: {delete: true}")).Without("s")},
		"the stage is shorter":          {resume: func(r *Resume) { r.Step = 2 }},
		"nothing is known of its start": {resume: func(r *Resume) { r.Begun, r.Done = nil, nil }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			past := Past{Stage: "s", Since: stagetest.Start, Resume: began.Stopped(1, on, half)}
			o := half.DeepCopy()
			if c.now != nil {
				c.now(o)
			}
			if c.resume != nil {
				c.resume(&past.Resume)
			}
			if c.set == nil {
				c.set = set
			}
			d := c.set.Decide(stagetest.Start.Add(time.Minute), 1, o, past, Scene{})
			if got := d.Reason.Code == Resumed; got != c.want {
				t.Fatalf("resumed %v: %s", got, d.String())
			}
			if !c.want {
				return
			}
			if !d.Due.Equal(stagetest.Start) || d.Since != past.Since {
				t.Errorf("due %s", d.Due)
			}
			e, err := c.set.Play(stagetest.Start, o, d, nil)
			if err != nil || len(e.Requests) != 1 || e.Requests[0].Step != 1 {
				t.Errorf("plays %+v, %v", e.Requests, err)
			}
			past.Decided(&d)
			if past.Resume.Stage != "s" {
				t.Error("the decision to resume forgets where to")
			}
		})
	}
}

// TestStoppedRemembersTheFirstObject checks that a stage that fails a second time is still judged by the object that
// it began on, and that a stage without an answer of the API is judged by that object alone.
func TestStoppedRemembersTheFirstObject(t *testing.T) {
	set := mustCompile(t, head+"spec:\n  resourceRef: {apiGroup: example.com/v1, kind: Widget}\n"+twoWrites)
	on, half := widget(t, ""), widget(t, "status: {phase: Up}")
	first := set.Decide(stagetest.Start, 1, on, Past{}, Scene{})
	if r := first.Stopped(0, on, nil); r.Begun != Object(on) || r.Done != Object(on) || r.Step != 0 || r.Stage != "s" {
		t.Errorf("no answer: %+v", r)
	}
	past := Past{Resume: first.Stopped(1, on, half)}
	again := set.Decide(stagetest.Start, 1, half, past, Scene{})
	r := again.Stopped(1, half, nil)
	if _, found, _ := unstructured.NestedString(r.Begun.(*unstructured.Unstructured).Object, "status", "phase"); found || r.Done != Object(half) {
		t.Errorf("began on %v", r.Begun)
	}
	if d := set.Decide(stagetest.Start, 1, half, Past{Resume: r}, Scene{}); d.Reason.Code != Resumed {
		t.Errorf("failed twice: %s", d.String())
	}
}

// TestResumeOfADeletedObjectThatWasBeingDeleted checks that a stage for the end of an object does resume.
func TestResumeOfADeletedObjectThatWasBeingDeleted(t *testing.T) {
	set := mustCompile(t, head+`spec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}, steps: [{patch: {root: metadata, template: "labels: {a: b}"}}, {delete: true}]}`)
	p := stagetest.NewPod(stagetest.Deleting)
	d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{})
	half := p.DeepCopy()
	half.Labels, half.DeletionGracePeriodSeconds = map[string]string{"a": "b"}, ptr.To[int64](0)
	d = set.Decide(stagetest.Start, 1, half, Past{Resume: d.Stopped(1, p, half)}, Scene{})
	e, err := set.Play(stagetest.Start, half, d, nil)
	if d.Reason.Code != Resumed || err != nil || len(e.Requests) != 0 || !e.Delete || e.DeleteStep != 1 {
		t.Errorf("%s: %+v, %v", d.String(), e, err)
	}
}
