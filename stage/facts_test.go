package stage

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStagesThatAskForFactsAreDrawn checks that a stage whose template asks for something outside the object takes part
// in the draw although it would change nothing now: the answer is not known when the decision is made, and it may
// differ when the stage is played.
func TestStagesThatAskForFactsAreDrawn(t *testing.T) {
	for template, drawn := range map[string]bool{
		`message: ""`:    false,
		`phase: Pending`: false,
		`{}`:             false,
		`reason: {{ if eq Version "x" }}x{{ end }}`:                     true,
		`reason: {{ if eq (NodeIPWith .spec.nodeName) "x" }}x{{ end }}`: true,
		`reason: {{ if eq (PodIP) "x" }}x{{ end }}`:                     true,
		`reason: {{ if eq (StartTime | toString) "x" }}x{{ end }}`:      true,
		`reason: {{ fail .metadata.name }}`:                             true, // an error is to be reported
	} {
		set := mustCompile(t, drawStage("a", 1, "next: {statusTemplate: '"+template+"'}")+drawStage("b", 0, `next: {statusTemplate: "message: other"}`))
		d := set.Decide(stagetest.Start, 1, stagetest.NewPod(labelled), Past{}, Scene{})
		if got := d.Stage == "a"; got != drawn || d.Reason.Matching != 2 {
			t.Errorf("%s: %s", template, d.String())
		}
	}
}

// TestDrawForOtherComponents checks that the draws of other components are independent of those of the stages, and
// stable.
func TestDrawForOtherComponents(t *testing.T) {
	seen := map[float64]bool{}
	for n := range uint64(100) {
		u := Draw(1, "uid", "actor", n)
		if u < 0 || u >= 1 || seen[u] || u != Draw(1, "uid", "actor", n) {
			t.Errorf("draw %d: %v", n, u)
		}
		seen[u] = true
	}
	if Draw(1, "uid", "a", 0) == Draw(2, "uid", "a", 0) || Draw(1, "uid", "a", 0) == Draw(1, "uid", "b", 0) || Draw(1, "uid", "a", 0) == Draw(1, "other", "a", 0) {
		t.Error("another seed, actor or object draws the same number")
	}
}

// TestLastChangeWithoutConditions checks that the last write of a field counts only for an object that reports no
// conditions.
func TestLastChangeWithoutConditions(t *testing.T) {
	wrote := metav1.NewTime(stagetest.Start.Add(-5 * time.Second))
	w := widget(t, "spec: {a: b}")
	w.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "a"}, {Manager: "b", Time: &wrote}})
	if got := LastChange(w); !got.Equal(wrote.Time) {
		t.Errorf("without conditions: %s", got)
	}
	changed := stagetest.Start.Add(-time.Minute)
	w.Object["status"] = map[string]any{"conditions": []any{map[string]any{"lastTransitionTime": changed.Format(time.RFC3339)}}}
	if got := LastChange(w); !got.Equal(changed) {
		t.Errorf("with a condition: %s", got)
	}
	if got := LastChange(widget(t, "status: {conditions: text}")); !got.IsZero() {
		t.Errorf("conditions that are no list: %s", got)
	}
	if got := LastChange(&corev1.Service{}); !got.IsZero() {
		t.Errorf("an object without times: %s", got)
	}
}

// TestTemplateFields checks the field that tools name for the template of each operation.
func TestTemplateFields(t *testing.T) {
	for spec, want := range map[string]string{
		`next: {statusTemplate: "a: b"}`:                         "spec.next.statusTemplate",
		`next: {patches: [{template: "a: b"}]}`:                  "spec.next.patches[0].template",
		`steps: [{patch: {template: "a: b"}}]`:                   "spec.steps[0].patch.template",
		`steps: [{apply: {template: "a: b"}}]`:                   "spec.steps[0].apply.template",
		`steps: [{delete: true}]`:                                "",
		`next: {event: {reason: r}}`:                             "",
		`steps: [{finalizers: {add: [{value: example.com/f}]}}]`: "",
	} {
		set := mustCompile(t, head+"spec: {resourceRef: {kind: Pod}, selector: {}, "+spec+"}")
		if got := set.stages(KindPod)[0].Operations[0].TemplateField(); got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}
