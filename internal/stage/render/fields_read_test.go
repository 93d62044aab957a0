package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReads: what a template reads is found wherever it stands, and a template that passes on the
// object itself reads everything.
func TestReads(t *testing.T) {
	part := func(fields ...string) map[string]bool {
		out := map[string]bool{}
		for _, f := range fields {
			out[f] = true
		}
		return out
	}
	for text, want := range map[string]fieldsRead{
		`a: 1`: {},
		`{{ .spec.nodeName }} {{ .metadata.name }}`:                               {"spec": part("nodeName"), "metadata": part("name")},
		`{{ .spec.nodeName }} {{ .spec }}`:                                        {"spec": nil},
		`{{ .spec }} {{ .spec.nodeName }}`:                                        {"spec": nil},
		`{{ range .spec.containers }}{{ . }}{{ .name }}{{ end }}`:                 {"spec": part("containers"), "name": nil},
		`{{ range .spec.containers }}{{ else }}{{ .status.phase }}{{ end }}`:      {"spec": part("containers"), "status": part("phase")},
		`{{ range .spec.containers }}{{ $.status.phase }}{{ end }}`:               {"spec": part("containers"), "status": part("phase")},
		`{{ with .spec }}{{ .nodeName }}{{ end }}`:                                {"spec": nil, "nodeName": nil},
		`{{ if and .spec.nodeName (not .metadata.labels.a) }}1{{ end }}`:          {"spec": part("nodeName"), "metadata": part("labels")},
		`{{ (index .spec.containers 0).name }} {{ (.status).phase }}`:             {"spec": part("containers"), "status": nil},
		`{{ $p := .status.phase }}{{ $p.x }}`:                                     {"status": part("phase")},
		`{{ . | YAML }}`:                                                          nil,
		`{{ $all := . }}{{ $all.spec.nodeName }}`:                                 nil,
		`{{ range .spec.containers }}{{ $ | YAML }}{{ end }}`:                     nil,
		`{{ range .spec.containers }}{{ else }}{{ index . "kind" }}{{ end }}`:     nil,
		`{{ define "x" }}{{ .spec.nodeName }}{{ end }}{{ template "x" . }}`:       nil,
		`{{ block "x" .spec }}{{ .nodeName }}{{ end }}`:                           nil,
		`{{ with .metadata.labels }}1{{ else with . }}{{ .spec }}{{ end }}`:       nil,
		`{{ range $i, $c := .spec.containers }}{{ $c.name }}{{ break }}{{ end }}`: {"spec": part("containers")},
	} {
		p, err := Parse(text, expr.Pod)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, readsOf(p.template)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
}

// TestShownIsEnough: a template that is shown what it reads renders what it renders from the
// whole object, for random templates and whatever is in the objects.
func TestShownIsEnough(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var fields []string
	fieldsOf(t, "", stagetest.NewPod(), &fields)
	fieldsOf(t, "", stagetest.NewNode(), &fields)
	for range 2000 {
		of, object := expr.Pod, metav1.Object(stagetest.NewPod(func(p *corev1.Pod) { p.Spec.NodeName = "node-1" }))
		if r.IntN(3) == 0 {
			of, object = expr.Node, stagetest.NewNode()
		}
		var text strings.Builder
		for i := range 1 + r.IntN(4) {
			f := fields[r.IntN(len(fields))]
			from := []string{"", "", "$"}[r.IntN(3)]
			fmt.Fprintf(&text, []string{
				"a%d: {{ %s%s | YAML | Quote }}\n", "b%d: {{ with %s%s }}{{ . | YAML | Quote }}{{ else }}{{ .metadata.name }}{{ end }}\n",
				"c%d: {{ if %s%s }}{{ $.metadata.uid }}{{ end }}\n",
			}[r.IntN(3)], i, from, f)
		}
		p, err := Parse(text.String(), of)
		if err != nil {
			t.Fatal(text.String(), err)
		}
		m := testMoment("a")
		m.Object = object
		part, err := p.Render(m, object)
		p.reads = nil
		whole, err2 := p.Render(m, object)
		if err != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", text.String(), err, err2)
		}
		if diff := cmp.Diff(whole, part); diff != "" {
			t.Fatalf("%s: (-whole +part)\n%s", text.String(), diff)
		}
	}
}

// fieldsOf lists the paths of an object, and one in each part that is nowhere.
func fieldsOf(t *testing.T, path string, value any, out *[]string) {
	data, err := json.Marshal(value)
	var values map[string]any
	if err == nil {
		err = json.Unmarshal(data, &values)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if strings.ContainsAny(key, "-./") {
			continue // no field of a template
		}
		*out = append(*out, path+"."+key)
		if m, ok := values[key].(map[string]any); ok && strings.Count(path, ".") < 2 {
			fieldsOf(t, path+"."+key, m, out)
			*out = append(*out, path+"."+key+".nowhere")
		}
	}
}
