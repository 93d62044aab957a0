package scale

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Values is the data of a template.
type Values struct {
	Name      string
	Namespace string
	Index     int
}

// object is a node or a pod.
type object interface {
	runtime.Object
	metav1.Object
}

const nodeTemplate = `apiVersion: v1
kind: Node
metadata:
  annotations:
    kwok.x-k8s.io/node: fake
  labels:
    kubernetes.io/arch: {{ param "arch" "amd64" }}
    kubernetes.io/os: linux
    node-role.kubernetes.io/agent: ""
    type: rehearse
{{- with param "zone" "" }}
    topology.kubernetes.io/zone: {{ . }}
{{- end }}
status:
  allocatable: &resources
    cpu: {{ param "cpu" "32" | quote }}
    memory: {{ param "memory" "256Gi" | quote }}
    pods: {{ param "pods" "110" | quote }}
  capacity: *resources
`

const podTemplate = `apiVersion: v1
kind: Pod
spec:
  containers:
  - name: main
    image: {{ param "image" "rehearse.example/simulated" | quote }}
{{- if or (param "cpu" "") (param "memory" "") }}
    resources:
      requests:
{{- with param "cpu" "" }}
        cpu: {{ . | quote }}
{{- end }}
{{- with param "memory" "" }}
        memory: {{ . | quote }}
{{- end }}
{{- end }}
  restartPolicy: {{ param "restartPolicy" "Always" }}
  terminationGracePeriodSeconds: {{ param "grace" "30" }}
`

// maker creates objects from a template.
type maker struct {
	kind   Kind
	tmpl   *template.Template
	params map[string]string
	fixed  object // set if the template renders the same text for all objects
}

// TemplateError reports an invalid template, or an unknown parameter.
type TemplateError struct{ msg string }

func (e *TemplateError) Error() string { return e.msg }

func newMaker(kind Kind, text string, params map[string]string) (*maker, error) {
	m := &maker{kind: kind, params: params}
	if text == "" {
		text = map[Kind]string{Node: nodeTemplate, Pod: podTemplate}[kind]
	}
	var err error
	m.tmpl, err = template.New("template").Funcs(template.FuncMap{
		"param": m.param,
		"quote": func(s string) string { return fmt.Sprintf("%q", s) },
	}).Parse(text)
	if err != nil {
		return nil, &TemplateError{err.Error()}
	}
	return m, m.probe()
}

// param is the template function param: the parameter of the command line, or the template's default. It changes nothing,
// because several goroutines render at once.
func (m *maker) param(name, otherwise string) string {
	if v, ok := m.params[name]; ok {
		return v
	}
	return otherwise
}

// probe renders the template twice: to find errors before anything is written, to find the parameters that it uses, and to
// find out whether one decoded object serves for all. Decoding YAML takes as long as writing the object.
func (m *maker) probe() error {
	used := map[string]bool{}
	m.tmpl.Funcs(template.FuncMap{"param": func(name, otherwise string) string {
		used[name] = true
		return m.param(name, otherwise)
	}})
	defer m.tmpl.Funcs(template.FuncMap{"param": m.param})
	first, err := m.render(Values{Name: "a-0", Namespace: "a", Index: 0})
	if err != nil {
		return err
	}
	second, err := m.render(Values{Name: "b-7", Namespace: "a", Index: 7})
	if err != nil {
		return err
	}
	for name := range m.params {
		if !used[name] {
			known := slices.Sorted(maps.Keys(used))
			return &TemplateError{fmt.Sprintf("--param %s: unknown parameter; the template uses: %s", name, strings.Join(known, ", "))}
		}
	}
	obj, err := m.decode(first)
	if err == nil && bytes.Equal(first, second) {
		m.fixed = obj
	}
	return err
}

func (m *maker) render(v Values) ([]byte, error) {
	var out bytes.Buffer
	if err := m.tmpl.Execute(&out, v); err != nil {
		return nil, &TemplateError{err.Error()}
	}
	return out.Bytes(), nil
}

func (m *maker) decode(data []byte) (object, error) {
	var obj object = &corev1.Pod{}
	if m.kind == Node {
		obj = &corev1.Node{}
	}
	strict, err := parse(data, obj)
	if err = errors.Join(err, strict); err != nil {
		return nil, &TemplateError{fmt.Sprintf("the template does not render a %s: %v", m.kind, err)}
	}
	got := obj.GetObjectKind().GroupVersionKind()
	if got.Kind != "" && !strings.EqualFold(got.Kind, string(m.kind)) {
		return nil, &TemplateError{fmt.Sprintf("the template renders a %s, not a %s", got.Kind, m.kind)}
	}
	return obj, nil
}

// parse decodes YAML as the API server does; unknown lists the paths of unknown fields.
func parse(data []byte, into any) (unknown, err error) {
	js, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	fields, err := json.UnmarshalStrict(js, into)
	return errors.Join(fields...), err
}

// make creates one object of a set.
func (m *maker) make(set string, v Values) (object, error) {
	var obj object
	if m.fixed != nil {
		obj = m.fixed.DeepCopyObject().(object)
	} else {
		data, err := m.render(v)
		if err == nil {
			obj, err = m.decode(data)
		}
		if err != nil {
			return nil, err
		}
	}
	if obj == nil {
		return nil, errors.New("no object")
	}
	obj.SetName(v.Name)
	obj.SetNamespace(v.Namespace)
	labels := maps.Clone(obj.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[Label] = set
	if _, ok := labels[corev1.LabelHostname]; !ok && m.kind == Node {
		labels[corev1.LabelHostname] = v.Name
	}
	obj.SetLabels(labels)
	return obj, nil
}
