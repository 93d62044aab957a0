package stage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The assertions of KWOK's own unit tests. A case in which KWOK and this engine differ says so.

func TestConformanceQuery(t *testing.T) {
	pod := map[string]any{
		"metadata": map[string]any{"name": "one", "labels": map[string]any{"tier": "web"}, "finalizers": []any{"f1", "f2"}},
		"spec":     map[string]any{"replicas": int64(3), "paused": false, "empty": "", "list": []any{}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}
	for program, want := range map[string][]any{
		`.metadata.name`:         {"one"},
		`.metadata.nothing`:      nil, // null is dropped
		`.metadata.nothing.at`:   nil,
		`.metadata.name.at`:      nil, // an error is no result
		`.metadata.finalizers[]`: {"f1", "f2"},
		`.metadata.nothing[]`:    nil, // an error is no result
		`.status.conditions.[] | select(.type == "Ready") | .status`: {"True"},
		`.status.conditions.[] | select(.type == "Other") | .status`: nil,
		`.spec.replicas`: {3}, // KWOK keeps a float here and never matches it
		`.spec.paused`:   {false},
		`.metadata.labels["tier"], .metadata.name`: {"web", "one"},
	} {
		q, err := expr.CompileJQ(program, expr.Unstructured, false)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := q.Results(&expr.View{Object: &unstructured.Unstructured{Object: pod}, Now: stagetest.Start})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", program, diff)
		}
	}
	for program, exists := range map[string]bool{`.spec.empty`: true, `.spec.paused`: true, `.spec.list`: true, `.spec.none`: false} {
		q, err := expr.CompileJQ(program, expr.Unstructured, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Exists(&expr.View{Object: &unstructured.Unstructured{Object: pod}}); got != exists {
			t.Errorf("%s exists: %v", program, got)
		}
	}
}

func TestConformanceFinalizers(t *testing.T) {
	items := func(names ...string) (out []v1alpha1.FinalizerItem) {
		for _, n := range names {
			out = append(out, v1alpha1.FinalizerItem{Value: n})
		}
		return out
	}
	for name, c := range map[string]struct {
		before []string
		change v1alpha1.StageFinalizers
		want   []string
	}{
		"add to none":        {nil, v1alpha1.StageFinalizers{Add: items("a")}, []string{"a"}},
		"add to others":      {[]string{"b"}, v1alpha1.StageFinalizers{Add: items("a")}, []string{"b", "a"}},
		"add what is there":  {[]string{"a"}, v1alpha1.StageFinalizers{Add: items("a")}, []string{"a"}},
		"add twice":          {nil, v1alpha1.StageFinalizers{Add: items("a", "a")}, []string{"a"}},
		"remove":             {[]string{"a", "b", "c"}, v1alpha1.StageFinalizers{Remove: items("b")}, []string{"a", "c"}},
		"remove the last":    {[]string{"a"}, v1alpha1.StageFinalizers{Remove: items("a")}, []string{}},
		"remove what is not": {[]string{"a"}, v1alpha1.StageFinalizers{Remove: items("b")}, []string{"a"}},
		"remove and add":     {[]string{"a", "b"}, v1alpha1.StageFinalizers{Remove: items("a"), Add: items("c")}, []string{"b", "c"}},
		"empty":              {[]string{"a", "b"}, v1alpha1.StageFinalizers{Empty: true}, nil},
		"empty and add":      {[]string{"a", "b"}, v1alpha1.StageFinalizers{Empty: true, Add: items("c")}, []string{"c"}},
		"nothing":            {[]string{"a"}, v1alpha1.StageFinalizers{}, []string{"a"}},
	} {
		if diff := cmp.Diff(c.want, changedFinalizers(c.before, &c.change)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
