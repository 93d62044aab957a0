package scale

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// gpuNode has the parts of KWOK's own templates: nested parameters, ranges, functions with an index.
const gpuNode = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokctlResource
metadata: {name: gpu-node}
parameters:
  podCIDR: 10.0.0.0/24
  nodeIP: 192.0.2.1
  allocatable: {cpu: 32, memory: 256Gi, example.com/gpu: 1000000}
  capacity: {}
template: |-
  kind: Node
  apiVersion: v1
  metadata:
    name: {{ Name }}
    annotations:
      kwok.x-k8s.io/node: fake
      made: {{ Quote (printf "%d in %s by %s" Index (or Namespace "none") (upper "x")) }}
  spec:
    podCIDR: {{ AddCIDR .podCIDR Index }}
  status:
    addresses:
    - {type: InternalIP, address: {{ AddIP .nodeIP Index }}}
    conditions: {{ YAML NodeConditions 2 }}
    allocatable:
    {{ range $key, $value := .allocatable }}
      {{ $key }}: {{ $value }}
    {{ end }}
    {{ $capacity := .capacity }}
    capacity:
    {{ range $key, $value := .allocatable }}
      {{ $key }}: {{ or ( index $capacity $key ) $value }}
    {{ end }}
`

// TestResource: a KwokctlResource with changed parameters renders objects that differ per index.
func TestResource(t *testing.T) {
	r, err := FindResource("f", []byte("kind: Other\n---\n"+gpuNode), "gpu-node")
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMaker(Request{Kind: "gpu-node", Resource: r, Programs: []string{".allocatable.cpu=8", `.capacity.cpu = (.allocatable.cpu * 2 | tostring)`}})
	if err != nil {
		t.Fatal(err)
	}
	if m.fixed != nil || m.gvk != nodeGVK {
		t.Errorf("fixed %v, kind %v", m.fixed, m.gvk)
	}
	obj, err := m.make("g", Values{Name: "g-000300", Index: 300})
	if err != nil {
		t.Fatal(err)
	}
	n := obj.(*corev1.Node)
	gpus := n.Status.Allocatable["example.com/gpu"]
	if n.Name != "g-000300" || n.Labels[Label] != "g" || n.Labels[corev1.LabelHostname] != "g-000300" || n.Annotations["made"] != "300 in none by X" ||
		n.Spec.PodCIDR != "10.1.44.0/24" || n.Status.Addresses[0].Address != "192.0.3.45" || len(n.Status.Conditions) != 5 ||
		n.Status.Allocatable.Cpu().String() != "8" || n.Status.Capacity.Cpu().String() != "16" || n.Status.Capacity.Memory().String() != "256Gi" || gpus.Value() != 1000000 {
		t.Errorf("%+v", n)
	}
}

// TestResourceErrors: mistakes in the file, in a program and in the template, before anything is written.
func TestResourceErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, kind, program, want string }{
		"no resource":     {text: "kind: Pod\n", want: "f: contains no KwokctlResource"},
		"other name":      {text: gpuNode, kind: "node", want: `f: contains no KwokctlResource named "node"; it has: gpu-node`},
		"twice":           {text: gpuNode + "---\n" + gpuNode, want: `KwokctlResource "gpu-node": is in the file twice`},
		"unknown field":   {text: strings.Replace(gpuNode, "parameters:", "params:", 1), want: `f:1: KwokctlResource: unknown field "params"`},
		"no template":     {text: "kind: KwokctlResource\nmetadata: {name: gpu-node}\n", want: `KwokctlResource "gpu-node": template: is missing`},
		"not YAML":        {text: "a: [\n", want: "f:1: "},
		"not jq":          {text: gpuNode, program: "cpu=8", want: "--param cpu=8: "},
		"two results":     {text: gpuNode, program: "., .", want: "--param ., .: must have exactly one result, the new parameters"},
		"no result":       {text: gpuNode, program: "empty", want: "must have exactly one result"},
		"failing program": {text: gpuNode, program: ".podCIDR.x=1", want: "expected an object but got: string"},
		"not a range":     {text: gpuNode, program: `.podCIDR="x"`, want: "AddCIDR"},
		"too far":         {text: gpuNode, program: `.nodeIP="255.255.255.255"`, want: "255.255.255.255 plus 7 is not an address"},
		"environment":     {text: strings.Replace(gpuNode, "Name }}", `env "HOME" }}`, 1), want: `function "env" not defined`},
		"no kind":         {text: strings.Replace(gpuNode, "kind: Node", "x: y", 1), want: "the template does not render an object: apiVersion or kind is missing"},
		"unknown in Node": {text: strings.Replace(gpuNode, "addresses:", "adresses:", 1), want: `the template does not render a valid Node: unknown field "status.adresses"`},
	} {
		kind := c.kind
		if kind == "" {
			kind = "gpu-node"
		}
		var programs []string
		if c.program != "" {
			programs = []string{c.program}
		}
		r, err := FindResource("f", []byte(c.text), kind)
		if err == nil {
			_, err = newMaker(Request{Kind: Kind(kind), Resource: r, Programs: programs})
		}
		if _, ok := err.(*TemplateError); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		f    func(string, int) (string, error)
		a    string
		n    int
		want string
	}{
		{addIP, "192.0.2.255", 1, "192.0.3.0"},
		{addIP, "2001:db8::1", 65535, "2001:db8::1:0"},
		{addCIDR, "10.0.0.1/24", 2, "10.0.2.1/24"},
		{addCIDR, "fd00::/64", 1, "fd00:0:0:1::/64"},
	} {
		if got, err := c.f(c.a, c.n); err != nil || got != c.want {
			t.Errorf("%s + %d: %s, %v, want %s", c.a, c.n, got, err, c.want)
		}
	}
}

// TestTemplateOfAnyKind: a kind of Kubernetes is decoded strictly, any other without a type.
func TestTemplateOfAnyKind(t *testing.T) {
	m, err := newMaker(Request{Kind: "widget", Template: "apiVersion: example.com/v1\nkind: Widget\nspec: {size: {{ param \"size\" \"3\" }}}\n", Params: map[string]string{"size": "4"}})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := m.make("w", Values{Name: "w-0", Namespace: "ns"})
	if err != nil || obj.GetNamespace() != "ns" || obj.GetLabels()[Label] != "w" || m.gvk.Group != "example.com" || m.fixed == nil {
		t.Errorf("%+v, %v", obj, err)
	}
	_, err = newMaker(Request{Kind: "deployment", Template: "apiVersion: apps/v1\nkind: Deployment\nspec: {replica: 3}\n"})
	if err == nil || !strings.Contains(err.Error(), `does not render a valid Deployment: unknown field "spec.replica"`) {
		t.Error(err)
	}
	m, err = newMaker(Request{Kind: "x", Template: "apiVersion: v1\nkind: {{ if eq .Index 9 }}Secret{{ else }}ConfigMap{{ end }}\n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.make("x", Values{Name: "x-9", Index: 9}); err == nil || !strings.Contains(err.Error(), "renders a Secret for x-9, and a ConfigMap for others") {
		t.Error(err)
	}
}
