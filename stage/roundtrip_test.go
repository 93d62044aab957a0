package stage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// drawStageObject generates a valid stage with any of the fields of the API.
func drawStageObject(t *rapid.T, i int) Stage {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	maybe := func(label string) bool { return rapid.Bool().Draw(t, label) }
	s := Stage{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.StageKind},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", pick("name", "a", "pod.ready", "x-y"), i)},
	}
	if maybe("annotated") {
		s.Annotations = map[string]string{NodeReadyAnnotation: pick("node-ready", "true", "false", "")}
	}
	s.Spec.ResourceRef = v1alpha1.StageResourceRef{Kind: "Pod"}
	if maybe("custom resource") {
		s.Spec.ResourceRef = v1alpha1.StageResourceRef{APIGroup: "example.com/v1", Kind: "Widget"}
	}
	texts := []string{"yes", "true", "1", "null", "", "two\nlines", `a "quote"`, "# no comment", "---", "{}", "0x1f", "1e3", "~"}
	s.Spec.Selector = &v1alpha1.StageSelector{MatchLabels: rapid.MapOfN(rapid.SampledFrom([]string{"a", "b.c/d", "y"}), rapid.SampledFrom(texts), 0, 2).Draw(t, "labels")}
	if len(s.Spec.Selector.MatchLabels) == 0 {
		s.Spec.Selector.MatchLabels = nil
	}
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		e := v1alpha1.SelectorExpression{CEL: &v1alpha1.ExpressionCEL{Expression: pick("cel", "true", "self.metadata.name == 'a'")}}
		if maybe("jq") {
			e = v1alpha1.SelectorExpression{JQ: &v1alpha1.SelectorJQ{Key: pick("key", ".status.phase", ".a[] | .b", `."x y"`), Operator: "In", Values: []string{rapid.SampledFrom(texts).Draw(t, "value")}}}
		}
		s.Spec.Selector.MatchExpressions = append(s.Spec.Selector.MatchExpressions, e)
	}
	s.Spec.Weight = rapid.IntRange(0, 1000).Draw(t, "weight")
	if maybe("delayed") {
		s.Spec.Delay = &v1alpha1.StageDelay{DurationMilliseconds: ptr.To(rapid.Int64().Draw(t, "duration"))}
		if maybe("jitter") {
			s.Spec.Delay.JitterDurationFrom = &v1alpha1.ExpressionFrom{JQ: &v1alpha1.ExpressionJQ{Expression: `.metadata.annotations["d"]`}}
		}
	}
	s.Spec.ImmediateNextStage = maybe("immediate")
	template := func() string {
		return pick("template", "phase: Running", "a: |\n  b\n  c\n", "{{ if .x }}\na: \"{{ .x }}\"\n{{ end }}", "# comment\na: 'b'", "\ta: b")
	}
	if maybe("next") {
		s.Spec.Next = &v1alpha1.StageNext{StatusTemplate: template(), Delete: maybe("delete")}
		return s
	}
	for range rapid.IntRange(1, 3).Draw(t, "steps") {
		step := v1alpha1.StageStep{Event: &v1alpha1.StageEvent{Type: "Normal", Reason: "R", Message: rapid.SampledFrom(texts).Draw(t, "message")}}
		switch pick("step", "event", "patch", "finalizers") {
		case "patch":
			step = v1alpha1.StageStep{Patch: &v1alpha1.StagePatch{Subresource: "status", Root: "status", Template: template(), Type: ptr.To(v1alpha1.StagePatchTypeMerge)}}
		case "finalizers":
			step = v1alpha1.StageStep{Finalizers: &v1alpha1.StageFinalizers{Add: []v1alpha1.FinalizerItem{{Value: pick("finalizer", "a", "b.c/d")}}, Empty: maybe("empty")}}
		}
		s.Spec.Steps = append(s.Spec.Steps, step)
	}
	return s
}

// TestStagesSurviveTheirText checks that Load returns the stages that were written, as YAML documents, as a List and
// as JSON: no value of a text becomes a number or a boolean, and no template loses a line.
func TestStagesSurviveTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []Stage
		var documents, items []string
		for i := range rapid.IntRange(1, 3).Draw(t, "stages") {
			s := drawStageObject(t, i)
			want = append(want, s)
			text, err := yaml.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			documents, items = append(documents, string(text)), append(items, string(data))
		}
		for name, text := range map[string]string{
			"documents": strings.Join(documents, "---\n"),
			"JSON":      strings.Join(items, "\n---\n"),
			"list":      `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(items, ",\n") + "]}",
		} {
			got, err := Load("f", []byte(text))
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-written +read)\n%s\n%s", name, diff, text)
			}
		}
	})
}

// TestBuiltinStagesSurviveTheirText checks the same for the stages that come with the program, and that their spec's
// digest, by which an interrupted stage is found again, does not depend on the text.
func TestBuiltinStagesSurviveTheirText(t *testing.T) {
	for _, name := range BuiltinNames() {
		stages, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stages {
			text, err := yaml.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Load("f", text)
			if err != nil || len(again) != 1 {
				t.Fatalf("%s: %v", s.Name, err)
			}
			if diff := cmp.Diff(s, again[0]); diff != "" {
				t.Errorf("%s (-built in +read)\n%s", s.Name, diff)
			}
			a, _ := digestOf(&s.Spec)
			b, _ := digestOf(&again[0].Spec)
			again[0].Spec.Weight++
			if c, _ := digestOf(&again[0].Spec); a != b || a == c {
				t.Errorf("%s: digest %x, read again %x, changed %x", s.Name, a, b, c)
			}
		}
	}
}

// TestStageNamesAreDNSNames checks the names that the API server would reject.
func TestStageNamesAreDNSNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"pod-ready": true, "a.b-c.d": true, "7": true, strings.Repeat("x", 253): true,
		"Pod": false, "a_b": false, "-a": false, "a-": false, "a/b": false, "a b": false, "ü": false, strings.Repeat("x", 254): false,
	} {
		_, bad := CompileGood([]Stage{newStage(name, KindPod)})
		if (len(bad) == 0) != valid {
			t.Errorf("%q: %v", name, bad)
		}
		if len(bad) > 0 && bad[0].Field != "metadata.name" {
			t.Errorf("%q: field %s", name, bad[0].Field)
		}
	}
}
