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
	m, err := newMaker(Pod, "", map[string]string{"cpu": "100m", "image": "nginx:1.29", "grace": "0"})
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

	m, err = newMaker(Node, "", map[string]string{"zone": "a", "pods": "7"})
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

func TestTemplateErrors(t *testing.T) {
	cases := map[string]struct {
		kind   Kind
		text   string
		params map[string]string
		want   string
	}{
		"unknown parameter": {kind: Pod, params: map[string]string{"cpus": "1"}, want: "--param cpus: unknown parameter; the template uses: cpu, grace, image"},
		"not a template":    {kind: Pod, text: "{{", want: "template"},
		"unknown value":     {kind: Pod, text: "{{ .Nmae }}", want: "Nmae"},
		"not YAML":          {kind: Pod, text: "a: [", want: "does not render a pod"},
		"unknown field":     {kind: Pod, text: "kind: Pod\nspec: {nodename: x}", want: `unknown field "spec.nodename"`},
		"another kind":      {kind: Node, text: "kind: Pod", want: "renders a Pod, not a node"},
		"bad quantity":      {kind: Node, params: map[string]string{"cpu": "many"}, want: "quantities must match"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := newMaker(c.kind, c.text, c.params)
			if _, ok := err.(*TemplateError); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTemplateThatDiffersPerObject(t *testing.T) {
	m, err := newMaker(Pod, `kind: Pod
metadata: {name: ignored, labels: {n: {{ .Index | print | quote }}, of: {{ .Namespace }}}}
spec: {containers: [{name: c, image: {{ .Name }}}]}`, nil)
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

// TestConcurrentRendering renders as scale does: many writers share one template. The race detector reports a template
// function that writes (a real scale once ended with "concurrent map writes").
func TestConcurrentRendering(t *testing.T) {
	m, err := newMaker(Node, `kind: Node
metadata: {annotations: {index: "{{ .Index }}"}}
status: {capacity: {cpu: "{{ param "cpu" "4" }}", memory: "{{ param "memory" "1Gi" }}"}}`, map[string]string{"cpu": "8"})
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
