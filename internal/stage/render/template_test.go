package render

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
)

// TestTemplateFunctions renders one expression each; the result is a string.
func TestTemplateFunctions(t *testing.T) {
	p := stagetest.NewPod(func(p *corev1.Pod) {
		p.Annotations, p.Labels = map[string]string{"k": `a "b"`}, map[string]string{"z": "1", "a": "2", "m": "3"}
	})
	for expression, want := range map[string]string{
		`{{ Now | Quote }}`:                                                      "2026-03-01T12:00:00Z",
		`{{ StartTime | Quote }}`:                                                "2026-03-01T11:00:00Z",
		`{{ now | date "15:04" | Quote }}`:                                       "12:00",
		`{{ dateInZone "15:04 MST" now "Asia/Tokyo" | Quote }}`:                  "21:00 JST",
		`{{ dateInZone "15:04 MST" now "Local" | Quote }}`:                       "12:00 UTC",
		`{{ htmlDate 0 | Quote }}`:                                               "1970-01-01",
		`{{ ago 0 | Quote }}`:                                                    "492324h0m0s",
		`{{ .metadata.annotations.k | Quote }}`:                                  `a "b"`,
		`{{ .metadata.generation | Quote }}`:                                     "1",
		`{{ keys .metadata.labels | join "," | Quote }}`:                         "a,m,z",
		`{{ values .metadata.labels | join "," | Quote }}`:                       "2,3,1",
		`{{ Version | Quote }}`:                                                  "v1.36.3",
		`{{ NodeIP | Quote }}`:                                                   "10.64.0.7",
		`{{ NodeIPWith "dual" | Quote }}`:                                        "10.64.0.9",
		`{{ NodeIPsWith "dual" | join "," | Quote }}`:                            "10.64.0.9,fd00::9",
		`{{ PodIP | Quote }}`:                                                    "10.128.0.11",
		`{{ PodIPWith "n" true "u" "name" "ns" | Quote }}`:                       "10.64.0.7",
		`{{ PodIPsWith "n" false "u" "name" "ns" | first | Quote }}`:             "10.128.0.11",
		`{{ (index NodeConditions 0).reason | Quote }}`:                          "KubeletReady",
		`{{ TransitionTime .status.conditions "PodScheduled" "True" | Quote }}`:  "2026-03-01T11:59:30Z",
		`{{ TransitionTime .status.conditions "PodScheduled" "False" | Quote }}`: "2026-03-01T12:00:00Z",
		`{{ TransitionTime .status.nothing "PodScheduled" "True" | Quote }}`:     "2026-03-01T12:00:00Z",
		`{{ YAML (dict "a" (list 1 2)) | Quote }}`:                               "a:\n- 1\n- 2",
		`{{ YAML (dict "a" 1 "b" 2) 1 | Quote }}`:                                "\n  a: 1\n  b: 2",
	} {
		tpl, err := Parse("out: "+expression, expr.Pod)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		values, err := tpl.Render(Moment{Now: stagetest.Start, Facts: stagetest.Facts{}, Object: p}, p)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if diff := cmp.Diff(want, values.(map[string]any)["out"]); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", expression, diff)
		}
	}
	n := stagetest.NewNode()
	tpl, err := Parse(`{out: "{{ NodeName }} {{ NodeIP }} {{ NodePort }}"}`, expr.Node)
	if err != nil {
		t.Fatal(err)
	}
	values, err := tpl.Render(Moment{Now: stagetest.Start, Facts: stagetest.Facts{}, Object: n}, n)
	if err != nil || values.(map[string]any)["out"] != "node-1 10.64.0.7 10250" {
		t.Errorf("%v, %v", values, err)
	}
}

// TestNothingImpure: a template that calls an unsupported function does not load, and the error says why.
func TestNothingImpure(t *testing.T) {
	for name, why := range unsupported {
		_, err := Parse("{{ "+name+" }}", expr.Pod)
		if err == nil || err.Error() != "function "+name+" may not be used: "+why {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlayerKeepsNothing: a template that was used before, also by a rendering that
// failed, knows nothing of that, and renders what a new one does.
func TestPlayerKeepsNothing(t *testing.T) {
	tpl, err := Parse(`{out: "{{ range until (int .spec.priority) }}{{ end }}{{ .metadata.name }} {{ Now }} {{ randNumeric 8 }}"}`, expr.Pod)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[*Program]*boundTemplate{}
	render := func(kept map[*Program]*boundTemplate, name string, after time.Duration, loops int32) (any, error) {
		p := stagetest.NewPod(func(p *corev1.Pod) { p.Name, p.Spec.Priority = name, &loops })
		return tpl.Render(Moment{Now: stagetest.Start.Add(after), Facts: stagetest.Facts{}, Object: p, Chance: Chance{Stage: name}, Cache: kept}, p)
	}
	for i := range 20 {
		if _, err := render(kept, "much", 0, 50_000); err != nil {
			t.Fatalf("rendering %d pays for those before it: %v", i, err)
		}
		if i%10 == 0 {
			if _, err := render(kept, "too much", 0, 1<<30); err == nil {
				t.Fatal("the budget is not kept")
			}
		}
		name, after := string(rune('a'+i)), time.Duration(i)*time.Hour
		want, err := render(nil, name, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := render(kept, name, after, 1); err != nil || !cmp.Equal(got, want) {
			t.Errorf("got %v, %v; alone it renders %v", got, err, want)
		}
	}
	if len(kept) != 1 || kept[tpl].session.Object != nil {
		t.Errorf("%d templates are kept, with %v", len(kept), kept[tpl].session.Object)
	}
}

func TestConformanceRenderer(t *testing.T) {
	for text, want := range map[string]any{
		`a: {{ .metadata.name }}`:                    map[string]any{"a": "web"},
		`{"a": {{ .metadata.generation }}}`:          map[string]any{"a": int64(1)},
		`- {{ .metadata.name | Quote }}`:             []any{"web"},
		`{{ YAML .spec.containers }}`:                []any{map[string]any{"name": "app", "image": "nginx:1.27", "resources": map[string]any{}}},
		`{{ with .status.nothing }}a: b{{ end }}`:    nil,
		`a: {{ .status.nothing | default "other" }}`: map[string]any{"a": "other"},
		`a: "{{ Now }}"`:                             map[string]any{"a": "2026-03-01T12:00:00Z"},
	} {
		tpl, err := Parse(text, expr.Pod)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tpl.Render(testMoment("s"), stagetest.NewPod())
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}
