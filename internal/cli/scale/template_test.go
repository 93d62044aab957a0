package scale

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

func TestBuiltInTemplates(t *testing.T) {
	m, err := newMaker(Request{Kind: Pod, Params: map[string]string{"cpu": "100m", "image": "nginx:1.29", "grace": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if m.fixed == nil {
		t.Error("the built-in template is decoded again for every pod")
	}
	obj, err := m.make("web", Values{Name: "web-3", Namespace: "shop", Index: 3})
	if err != nil {
		t.Fatal(err)
	}
	pod := obj.(*corev1.Pod)
	c := pod.Spec.Containers[0]
	if pod.Name != "web-3" || pod.Namespace != "shop" || pod.Labels[Label] != "web" || c.Image != "nginx:1.29" ||
		c.Resources.Requests.Cpu().String() != "100m" || *pod.Spec.TerminationGracePeriodSeconds != 0 {
		t.Errorf("%+v", pod)
	}
	again, err := m.make("web", Values{Name: "web-4", Namespace: "shop", Index: 4})
	if err != nil || pod.Name != "web-3" || again.GetName() != "web-4" {
		t.Errorf("two pods share an object: %v", err)
	}

	m, err = newMaker(Request{Kind: Node, Params: map[string]string{"zone": "a", "pods": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	obj, err = m.make("big", Values{Name: "big-0"})
	if err != nil {
		t.Fatal(err)
	}
	node := obj.(*corev1.Node)
	if node.Labels[corev1.LabelHostname] != "big-0" || node.Labels[corev1.LabelTopologyZone] != "a" ||
		node.Annotations["kwok.x-k8s.io/node"] != "fake" || node.Status.Capacity.Pods().Value() != 7 ||
		node.Status.Allocatable.Cpu().Value() != 32 {
		t.Errorf("%+v", node)
	}
}

// TestParametersByPrefix: nodes have extended resources, images, labels and annotations of any name.
func TestParametersByPrefix(t *testing.T) {
	m, err := newMaker(Request{Kind: Node, Params: map[string]string{
		"resource.nvidia.com/gpu": "8", "resource.ephemeral-storage": "1Ti", "image.example.com/train:v1": "180Mi",
		"label.team": "true", "annotation.example.com/note": `a "b": c`,
	}})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := m.make("gpu", Values{Name: "gpu-0"})
	if err != nil {
		t.Fatal(err)
	}
	node := obj.(*corev1.Node)
	for list, resources := range map[string]corev1.ResourceList{"capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable} {
		gpus, storage := resources["nvidia.com/gpu"], resources[corev1.ResourceEphemeralStorage]
		if gpus.Value() != 8 || storage.Value() != 1<<40 || resources.Cpu().Value() != 32 {
			t.Errorf("%s is %v", list, resources)
		}
	}
	if len(node.Status.Images) != 1 || node.Status.Images[0].Names[0] != "example.com/train:v1" || node.Status.Images[0].SizeBytes != 180<<20 {
		t.Errorf("images are %v", node.Status.Images)
	}
	if node.Labels["team"] != "true" || node.Annotations["example.com/note"] != `a "b": c` {
		t.Errorf("%v %v", node.Labels, node.Annotations)
	}

	if m, err = newMaker(Request{Kind: Pod, Params: map[string]string{"resource.nvidia.com/gpu": "1"}}); err != nil {
		t.Fatal(err)
	}
	if obj, err = m.make("p", Values{Name: "p-0", Namespace: "default"}); err != nil {
		t.Fatal(err)
	}
	limit := obj.(*corev1.Pod).Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
	if limit.Value() != 1 {
		t.Errorf("the limit of a pod is %s", limit.String())
	}
}

func TestTemplateErrors(t *testing.T) {
	cases := map[string]struct {
		kind   Kind
		text   string
		params map[string]string
		want   string
	}{
		"unknown parameter":       {kind: Pod, params: map[string]string{"cpus": "1"}, want: "--param cpus: unknown parameter; the template uses: cpu, grace, image"},
		"not a template":          {kind: Pod, text: "{{", want: "template"},
		"unknown value":           {kind: Pod, text: "{{ .Nmae }}", want: "Nmae"},
		"not YAML":                {kind: Pod, text: "a: [", want: "does not render a pod"},
		"unknown field":           {kind: Pod, text: "kind: Pod\nspec: {nodename: x}", want: `unknown field "spec.nodename"`},
		"another kind":            {kind: Node, text: "kind: Pod", want: "renders a Pod, not a node"},
		"resource without a name": {kind: Node, params: map[string]string{"resource.": "1"}, want: "--param resource.: unknown parameter"},
		"unknown prefix":          {kind: Pod, params: map[string]string{"label.a": "1"}, want: "the template uses: cpu, grace, image, memory, resource.NAME, restartPolicy"},
		"bad size":                {kind: Node, params: map[string]string{"image.a": "big"}, want: `"big" is not a size in bytes, such as 180Mi`},
		"bad quantity":            {kind: Node, params: map[string]string{"cpu": "many"}, want: "quantities must match"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := newMaker(Request{Kind: c.kind, Template: c.text, Params: c.params})
			if _, ok := err.(*TemplateError); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTemplateThatDiffersPerObject(t *testing.T) {
	m, err := newMaker(Request{Kind: Pod, Template: `kind: Pod
metadata: {name: ignored, labels: {n: {{ .Index | print | quote }}, of: {{ .Namespace }}}}
spec: {containers: [{name: c, image: {{ .Name }}}]}`})
	if err != nil {
		t.Fatal(err)
	}
	if m.fixed != nil {
		t.Error("one object stands for all, and they differ")
	}
	obj, err := m.make("web", Values{Name: "web-5", Namespace: "ns", Index: 5})
	if err != nil {
		t.Fatal(err)
	}
	if pod := obj.(*corev1.Pod); pod.Name != "web-5" || pod.Labels["of"] != "ns" || pod.Spec.Containers[0].Image != "web-5" {
		t.Errorf("%+v", pod)
	}
}

// TestTemplateThatReadsLittle: an object that serves for all must not depend on the namespace, or on one index.
func TestTemplateThatReadsLittle(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Pod\nmetadata: {labels: {x: {{ .Namespace }}}}":                                 "shop",
		"kind: Pod\nmetadata: {labels: {x: {{ if eq .Index 9 }}nine{{ else }}other{{ end }}}}": "nine",
	} {
		m, err := newMaker(Request{Kind: Pod, Template: text})
		if err != nil {
			t.Fatal(err)
		}
		obj, err := m.make("web", Values{Name: "web-9", Namespace: "shop", Index: 9})
		if err != nil || obj.GetLabels()["x"] != want {
			t.Errorf("%s: %v, %v", text, obj, err)
		}
	}
}

// TestConcurrentRendering renders as scale does: many writers share one template. The race detector reports a template
// function that writes (a real scale once ended with "concurrent map writes").
func TestConcurrentRendering(t *testing.T) {
	m, err := newMaker(Request{Kind: Node, Params: map[string]string{"cpu": "8"}, Template: `kind: Node
metadata: {annotations: {index: "{{ .Index }}"}}
status: {capacity: {cpu: "{{ param "cpu" "4" }}", memory: "{{ param "memory" "1Gi" }}"}}`})
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for i := range 200 {
		group.Go(func() error {
			obj, err := m.make("big", Values{Name: fmt.Sprintf("big-%d", i), Index: i})
			if err != nil {
				return err
			}
			node := obj.(*corev1.Node)
			if node.Annotations["index"] != strconv.Itoa(i) || node.Status.Capacity.Cpu().Value() != 8 {
				return fmt.Errorf("%+v", node)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
