package stage

import (
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
)

// TestAppliesOfAStage checks the request of an apply: for another object as the template renders it, for the object
// itself a patch that is bound to its version and is left out where it changes nothing.
func TestAppliesOfAStage(t *testing.T) {
	const own = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 1}}"
	for name, c := range map[string]struct{ object, apply, want string }{
		"another object": {"", `{template: "{apiVersion: v1, kind: Secret, metadata: {name: s}}"}`,
			`0 apply Secret team/s apply-patch+yaml {"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`},
		"another namespace": {"", `{template: "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: other}}"}`,
			`0 apply Secret other/s apply-patch+yaml {"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"other"}}`},
		"strategic merge of a kind of Kubernetes": {"", `{type: strategic, template: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}"}`,
			`0 apply Deployment.apps/v1 team/d strategic-merge {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}}`},
		"a subresource": {"", `{type: merge, subresource: status, template: "{apiVersion: v1, kind: Pod, metadata: {name: p}}"}`,
			`0 apply Pod team/p status merge {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`},
		"itself": {"spec: {size: 2}", `{template: "` + own + `"}`,
			`0 apply Widget.example.com/v1 team/w apply-patch+yaml {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w",` + bound + `,"spec":{"size":1}}`},
		"itself, and it is so":           {"spec: {size: 1, more: 2}", `{template: "` + own + `"}`, ""},
		"itself in another namespace":    {"spec: {size: 1}", `{template: "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: other}}"}`, `0 apply Widget.example.com/v1 other/w apply-patch+yaml {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"other"}}`},
		"nothing is rendered":            {"", `{template: "{{ if false }}x{{ end }}"}`, ""},
		"a list is rendered":             {"", `{template: "[a]"}`, "error: the template does not render a YAML mapping"},
		"no apiVersion":                  {"", `{template: "{kind: Secret}"}`, "error: the object has no apiVersion"},
		"no kind":                        {"", `{template: "{apiVersion: v1}"}`, "error: the object has no kind"},
		"no name":                        {"", `{template: "{apiVersion: v1, kind: Secret, metadata: {generateName: s-}}"}`, "error: the object has no metadata.name: a generated name could not be repeated without creating a second object"},
		"strategic of a custom resource": {"", `{type: strategic, template: "{apiVersion: example.com/v1, kind: Other, metadata: {name: o}}"}`, "error: the API does not support strategic merge patches of Other.example.com/v1, a custom resource; use type merge"},
		"a version of its own":           {"", `{template: "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, resourceVersion: '3'}}"}`, "error: a patch must not set metadata.resourceVersion: every write contains it as a precondition"},
		"a UID of its own":               {"", `{template: "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, uid: x}}"}`, "error: a patch must not set metadata.uid: every write contains it as a precondition"},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, widgetStage("  steps: [{apply: "+c.apply+"}]"))
			o := widget(t, c.object)
			d := set.Decide(stagetest.Start, 1, o, Past{}, Scene{})
			e, err := set.Play(stagetest.Start, o, d, nil)
			if want, isError := strings.CutPrefix(c.want, "error: "); isError {
				if err == nil || err.Error() != "stage s: spec.steps[0].apply.template: "+want {
					t.Errorf("got %v", err)
				}
				if _, err := set.Preview(stagetest.Start, o, d, nil); err == nil {
					t.Error("the preview plays it")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSuffix(describe(t, e), "\n"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestApplyOfAPodToItselfMergesByKey checks that an apply of a pod to itself knows which conditions the pod has: one of
// the same type is no second one.
func TestApplyOfAPodToItselfMergesByKey(t *testing.T) {
	apply := func(status string) *Set {
		return mustCompile(t, head+`spec: {resourceRef: {kind: Pod}, selector: {}, steps: [{apply: {subresource: status, template: "{apiVersion: v1, kind: Pod, metadata: {name: web}, status: {conditions: [{type: PodScheduled, status: '`+status+`'}]}}"}}]}`)
	}
	p := stagetest.NewPod()
	for status, want := range map[string]int{"True": 0, "False": 1} {
		set := apply(status)
		e, err := set.Play(stagetest.Start, p, set.Decide(stagetest.Start, 1, p, Past{}, Scene{}), nil)
		if err != nil || len(e.Requests) != want {
			t.Errorf("%s: %d requests, %v", status, len(e.Requests), err)
		}
	}
}

// TestPatchesOfOtherSubresources checks that a patch is sent where its effect is not known, and left out where the
// object shows that it changes nothing.
func TestPatchesOfOtherSubresources(t *testing.T) {
	for name, c := range map[string]struct {
		object, patch string
		want          int
	}{
		"scale without replicas":     {"", `{subresource: scale, root: spec, template: "replicas: 1"}`, 1},
		"scale that is so":           {"spec: {replicas: 1}", `{subresource: scale, root: spec, template: "replicas: 1"}`, 0},
		"scale to another number":    {"spec: {replicas: 1}", `{subresource: scale, root: spec, template: "replicas: 2"}`, 1},
		"scale loses its replicas":   {"spec: {replicas: 1}", `{subresource: scale, root: spec, template: "replicas: null"}`, 1},
		"a subresource of its own":   {"", `{subresource: approval, template: "a: b"}`, 1},
		"status":                     {"status: {a: b}", `{subresource: status, template: "status: {a: b}"}`, 0},
		"the object":                 {"spec: {a: b}", `{root: spec, template: "a: b"}`, 0},
		"null where nothing is":      {"spec: {}", `{root: spec, template: "a: null"}`, 0},
		"a mapping that stays empty": {"spec: {}", `{root: spec, template: "{}"}`, 0},
	} {
		set := mustCompile(t, widgetStage("  steps: [{patch: "+c.patch+"}]"))
		o := widget(t, c.object)
		e, err := set.Play(stagetest.Start, o, set.Decide(stagetest.Start, 1, o, Past{}, Scene{}), nil)
		if err != nil || len(e.Requests) != c.want {
			t.Errorf("%s: %d requests, want %d; %v", name, len(e.Requests), c.want, err)
		}
	}
}
