package stage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestTemplateFunctions renders one expression each; the result is a string.
func TestTemplateFunctions(t *testing.T) {
	p := newPod(annotated("k", `a "b"`), func(p *corev1.Pod) { p.Labels = map[string]string{"z": "1", "a": "2", "m": "3"} })
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
		tpl, err := parseTemplate("out: "+expression, KindPod)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		values, err := tpl.render(moment{now: start, facts: fixedFacts{}, object: p}, p)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if diff := cmp.Diff(want, values.(map[string]any)["out"]); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", expression, diff)
		}
	}
	n := newNode()
	tpl, err := parseTemplate(`{out: "{{ NodeName }} {{ NodeIP }} {{ NodePort }}"}`, KindNode)
	if err != nil {
		t.Fatal(err)
	}
	values, err := tpl.render(moment{now: start, facts: fixedFacts{}, object: n}, n)
	if err != nil || values.(map[string]any)["out"] != "node-1 10.64.0.7 10250" {
		t.Errorf("%v, %v", values, err)
	}
}

// TestNothingImpure: every function that is refused is refused with its reason,
// and by name.
func TestNothingImpure(t *testing.T) {
	for name, why := range unsupported {
		_, err := parseTemplate("{{ "+name+" }}", KindPod)
		if err == nil || err.Error() != "function "+name+" may not be used: "+why {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, why := range impure {
		_, err := compileQuery(name, KindPod, true)
		if err == nil || !strings.Contains(err.Error(), name+" may not be used: "+why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlayErrors(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"the template fails": {`{{ fail "no" }}`, "no"},
		"no mapping":         {`- a`, "does not render a YAML mapping"},
		"does not fit":       {`phase: [1]`, "does not fit its type"},
		"a list is none":     {`conditions: x`, "does not fit its type"},
		"a number too large": {`containerStatuses: [{name: a, restartCount: 99999999999}]`, "does not fit its type"},
		"no whole number":    {`containerStatuses: [{name: a, restartCount: 1.5}]`, "does not fit its type"},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, head+"spec: {resourceRef: {kind: Pod}, selector: {}, next: {statusTemplate: '"+c.template+"'}}")
			p := newPod()
			_, err := set.Play(start, p, set.Decide(start, 1, p, Past{}, Scene{}), fixedFacts{})
			if err == nil || !strings.HasPrefix(err.Error(), "stage s: spec.next.statusTemplate: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMergePatch(t *testing.T) {
	// RFC 7386, appendix A, the rows whose patch is an object.
	obj := func(kv ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	for _, c := range []struct{ target, patch, want map[string]any }{
		{obj("a", "b"), obj("a", "c"), obj("a", "c")},
		{obj("a", "b"), obj("b", "c"), obj("a", "b", "b", "c")},
		{obj("a", "b"), obj("a", nil), obj()},
		{obj("a", "b", "b", "c"), obj("a", nil), obj("b", "c")},
		{obj("a", []any{"b"}), obj("a", "c"), obj("a", "c")},
		{obj("a", "c"), obj("a", []any{"b"}), obj("a", []any{"b"})},
		{obj("a", obj("b", "c")), obj("a", obj("b", "d", "c", nil)), obj("a", obj("b", "d"))},
		{obj("a", "foo"), obj("a", obj("b", nil)), obj("a", obj())},
		{obj(), obj("a", obj("bb", obj("ccc", nil))), obj("a", obj("bb", obj()))},
	} {
		if diff := cmp.Diff(c.want, mergePatch(c.target, c.patch)); diff != "" {
			t.Errorf("%v with %v (-want +got)\n%s", c.target, c.patch, diff)
		}
	}
}

// TestPlayerKeepsNothing: a template that was used before, also by a rendering that
// failed, knows nothing of that, and renders what a new one does.
func TestPlayerKeepsNothing(t *testing.T) {
	tpl, err := parseTemplate(`{out: "{{ range until (int .spec.priority) }}{{ end }}{{ .metadata.name }} {{ Now }} {{ randNumeric 8 }}"}`, KindPod)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[*program]*boundTemplate{}
	render := func(kept map[*program]*boundTemplate, name string, after time.Duration, loops int32) (any, error) {
		p := newPod(func(p *corev1.Pod) { p.Name, p.Spec.Priority = name, &loops })
		return tpl.render(moment{now: start.Add(after), facts: fixedFacts{}, object: p, chance: chanceOf{stage: name}, bound: kept}, p)
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
	if len(kept) != 1 || kept[tpl].session.object != nil {
		t.Errorf("%d templates are kept, with %v", len(kept), kept[tpl].session.object)
	}
}
