package stage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// requirement compiles one requirement on objects of a kind.
func requirement(kind Kind, key string, op v1alpha1.SelectorOperator, values ...string) (Requirement, error) {
	c := &compiling{Source: &Source{Stage: &Stage{}}, kind: kind, cel: &expr.CELCompiler{}}
	r, err := c.compileExpression("f", v1alpha1.SelectorExpression{Key: key, Operator: op, Values: values})
	if err != nil {
		return r, err
	}
	return r, nil
}

// selectorKeys are plain paths, which are compiled to closures, and programs, which jq evaluates.
var selectorKeys = []string{
	".status.phase", ".status.podIP", ".metadata.labels.go", `.metadata.annotations["a"]`, ".spec.hostNetwork", ".metadata.generation",
	".status.conditions[].type", ".spec.containers[0].name", ".metadata.deletionTimestamp", ".spec", ".nonsense",
	".spec.containers | length", `.status.phase | ascii_downcase`, "empty", "null", `error("x")`, `1, "a", true`,
}

// TestOperatorsNegateEachOther checks that NotIn is the opposite of In, and DoesNotExist of Exists, on every object
// and for every key.
func TestOperatorsNegateEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := stagetest.DrawPod(t)
		key := rapid.SampledFrom(selectorKeys).Draw(t, "key")
		values := rapid.SliceOfN(rapid.SampledFrom([]string{"", "Running", "Pending", "true", "false", "1", "yes", "Ready", "app-0", "running", "null"}), 1, 3).Draw(t, "values")
		holds := func(op v1alpha1.SelectorOperator, values ...string) bool {
			r, err := requirement(KindPod, key, op, values...)
			if err != nil {
				t.Fatal(err)
			}
			return r.Holds(&expr.View{Object: p, Now: stagetest.Start}, "s")
		}
		in, exists := holds("In", values...), holds("Exists")
		if in == holds("NotIn", values...) {
			t.Fatalf("%s In %q and NotIn are both %v", key, values, in)
		}
		if exists == holds("DoesNotExist") {
			t.Fatalf("%s Exists and DoesNotExist are both %v", key, exists)
		}
		if in && !exists {
			t.Fatalf("%s In %q holds for a value that does not exist", key, values)
		}
		one := false
		for _, v := range values {
			one = one || holds("In", v)
		}
		if in != one {
			t.Fatalf("%s In %q is %v, and in one of them %v", key, values, in, one)
		}
	})
}

// TestTypedAndUnstructuredObjectsMatchAlike checks that a requirement gives the same answer for a custom resource as
// for a pod with the same fields.
func TestTypedAndUnstructuredObjectsMatchAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := stagetest.DrawPod(t)
		values := ValuesOf(p)
		values["apiVersion"], values["kind"] = kindWidget.APIVersion, kindWidget.Kind
		u, err := ObjectOf(values, kindWidget)
		if err != nil {
			t.Fatal(err)
		}
		// An empty field of a pod is not in its JSON, and .spec of a pod is never absent; the rest is the same.
		key := rapid.SampledFrom([]string{
			".status.phase", ".status.podIP", ".metadata.labels.go", `.metadata.annotations["a"]`, ".spec.hostNetwork",
			".metadata.generation", ".status.conditions[].type", ".spec.containers[0].name", ".metadata.deletionTimestamp", ".nonsense",
		}).Draw(t, "key")
		op := rapid.SampledFrom([]v1alpha1.SelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, "operator")
		var want []string
		if strings.HasSuffix(string(op), "In") {
			want = []string{rapid.SampledFrom([]string{"Running", "Pending", "true", "1", "2", "yes", "Ready", "app-0", "x"}).Draw(t, "value")}
		}
		answer := func(kind Kind, o Object) bool {
			r, err := requirement(kind, key, op, want...)
			if err != nil {
				t.Fatal(err)
			}
			return r.Holds(&expr.View{Object: o, Now: stagetest.Start}, "s")
		}
		if pod, widget := answer(KindPod, p), answer(kindWidget, u); pod != widget {
			t.Fatalf("%s %s %q: %v for the pod, %v for the widget", key, op, want, pod, widget)
		}
	})
}

// TestWhatTheObjectHas checks the value that an explanation shows next to a requirement that does not hold.
func TestWhatTheObjectHas(t *testing.T) {
	p := stagetest.NewPod(stagetest.Running, labelled, func(p *corev1.Pod) {
		p.Annotations = map[string]string{"empty": "", "lines": "a\nb"}
	})
	for key, want := range map[string]string{
		".status.phase":                    `"Running"`,
		".status.reason":                   "nothing",
		".metadata.generation":             "1",
		".spec":                            `{"containers":[{"image":"nginx:1.27","name":"app","resources":{}}],"nodeName":"n…`,
		".metadata.annotations.empty":      `""`,
		".spec.containers | length":        "1",
		".spec.containers | map(.name)":    `["app"]`,
		".metadata.labels.go, .kind, 2.5":  "yes, 2.5",
		"empty":                            "nothing",
		`error("x")`:                       "nothing",
		`.metadata.annotations.lines + ""`: `"a\nb"`,
	} {
		r, err := requirement(KindPod, key, "Exists")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Got(&expr.View{Object: p, Now: stagetest.Start}); strings.Trim(got, `"`) != strings.Trim(want, `"`) {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	c, err := (&compiling{cel: &expr.CELCompiler{}}).compileCondition("f", "self.status.phase == 'X'")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Got(&expr.View{Object: p}); got != "" {
		t.Errorf("a CEL condition has no value to show, got %q", got)
	}
}

// TestExplanationNamesTheFirstFailure checks that labels come before annotations and expressions, each group in a fixed
// order, so that the explanation of an object is always the same.
func TestExplanationNamesTheFirstFailure(t *testing.T) {
	set := mustCompile(t, head+`spec:
  resourceRef: {kind: Pod}
  selector:
    matchLabels: {b: "1", a: "1"}
    matchAnnotations: {d: "1", c: "1"}
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Running, Failed]}
    - {cel: {expression: "self.metadata.name == 'other'"}}
    - {key: '.spec.containers | length', operator: NotIn, values: ["1"]}
  next: {delete: true}`)
	p := stagetest.NewPod(func(p *corev1.Pod) { p.Labels, p.Annotations = map[string]string{}, map[string]string{} })
	for i, c := range []struct {
		want, got string
		meet      func()
	}{
		{`.metadata.labels["a"] In ["1"]`, "nothing", func() { p.Labels["a"] = "1" }},
		{`.metadata.labels["b"] In ["1"]`, "nothing", func() { p.Labels["b"] = "2" }},
		{`.metadata.labels["b"] In ["1"]`, "2", func() { p.Labels["b"] = "1" }},
		{`.metadata.annotations["c"] In ["1"]`, "nothing", func() { p.Annotations["c"] = "1" }},
		{`.metadata.annotations["d"] In ["1"]`, "nothing", func() { p.Annotations["d"] = "1" }},
		{`.status.phase In ["Running" "Failed"]`, "Pending", func() { p.Status.Phase = corev1.PodFailed }},
		{`self.metadata.name == 'other'`, "", func() { p.Name = "other" }},
		{`.spec.containers | length NotIn ["1"]`, "1", func() { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b"}) }},
	} {
		e := set.Explain(p, Scene{})[0]
		if e.Matches || e.Because != c.want || strings.Trim(e.Got, `"`) != c.got || e.Problem != "" {
			t.Errorf("%d: got %+v, want %s and %s", i, e, c.want, c.got)
		}
		c.meet()
	}
	if e := set.Explain(p, Scene{})[0]; !e.Matches || e.Because != "" || e.Got != "" {
		t.Errorf("all requirements hold: %+v", e)
	}
}

// TestExplainAgreesWithDecide checks on random objects that the explanation and the decision name the same stages.
func TestExplainAgreesWithDecide(t *testing.T) {
	sets := builtinSets(t)
	rapid.Check(t, func(t *rapid.T) {
		set := sets[rapid.SampledFrom([]string{"fast", "general"}).Draw(t, "set")]
		p, scene := stagetest.DrawPod(t), Scene{NodeReady: rapid.Bool().Draw(t, "ready")}
		matching := map[string]bool{}
		for _, e := range set.Explain(p, scene) {
			if e.Matches == (e.Because != "") {
				t.Fatalf("matches %v because of %q", e.Matches, e.Because)
			}
			if e.Matches {
				matching[e.Stage] = true
			}
		}
		for _, o := range set.Options(stagetest.Start, 1, p, Past{}, scene) {
			if !matching[o.Stage] {
				t.Fatalf("%s may be next and does not match", o.Stage)
			}
			delete(matching, o.Stage)
		}
		if len(matching) > 0 {
			t.Fatalf("match and are no option: %s", fmt.Sprint(matching))
		}
	})
}
