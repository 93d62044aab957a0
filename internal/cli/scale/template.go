package scale

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Values are what differs between the objects of a set.
type Values struct {
	Name      string
	Namespace string
	Index     int
}

// object is an object of any kind.
type object interface {
	runtime.Object
	metav1.Object
}

const nodeTemplate = `apiVersion: v1
kind: Node
metadata:
  annotations:
    kwok.x-k8s.io/node: fake
{{- range $key, $value := params "annotation." }}
    {{ $key | quote }}: {{ $value | quote }}
{{- end }}
  labels:
    kubernetes.io/arch: {{ param "arch" "amd64" }}
    kubernetes.io/os: linux
    node-role.kubernetes.io/agent: ""
    type: rehearse
{{- with param "zone" "" }}
    topology.kubernetes.io/zone: {{ . }}
{{- end }}
{{- range $key, $value := params "label." }}
    {{ $key | quote }}: {{ $value | quote }}
{{- end }}
status:
  allocatable: &resources
    cpu: {{ param "cpu" "32" | quote }}
    memory: {{ param "memory" "256Gi" | quote }}
    pods: {{ param "pods" "110" | quote }}
{{- range $name, $quantity := params "resource." }}
    {{ $name | quote }}: {{ $quantity | quote }}
{{- end }}
  capacity: *resources
{{- with params "image." }}
  images:
{{- range $name, $size := . }}
  - names: [{{ $name | quote }}]
    sizeBytes: {{ bytes $size }}
{{- end }}
{{- end }}
`

const podTemplate = `apiVersion: v1
kind: Pod
spec:
  containers:
  - name: main
    image: {{ param "image" "rehearse.example/simulated" | quote }}
{{- if or (param "cpu" "") (param "memory" "") (params "resource.") }}
    resources:
      requests:
{{- with param "cpu" "" }}
        cpu: {{ . | quote }}
{{- end }}
{{- with param "memory" "" }}
        memory: {{ . | quote }}
{{- end }}
{{- with params "resource." }}
      limits:
{{- range $name, $quantity := . }}
        {{ $name | quote }}: {{ $quantity | quote }}
{{- end }}
{{- end }}
{{- end }}
  restartPolicy: {{ param "restartPolicy" "Always" }}
  terminationGracePeriodSeconds: {{ param "grace" "30" }}
`

// source renders the text of one object.
type source interface {
	render(Values) ([]byte, error)
	// isFixed reports whether the renderings so far did not depend on the object, so that no later one will.
	isFixed() bool
	// unused returns an error if a parameter of the command line has had no effect in the renderings so far.
	unused() error
}

// TemplateError reports an invalid template, or an unknown parameter.
type TemplateError struct{ msg string }

func (e *TemplateError) Error() string { return e.msg }

// textSource renders our own templates: the built-in ones and those of --template.
type textSource struct {
	tmpl   *template.Template
	params map[string]string

	mu     sync.Mutex
	used   map[string]bool
	varies atomic.Bool
}

// templateData is what our templates see of an object: .Name, .Namespace and .Index.
type templateData struct {
	values Values
	source *textSource
}

func (d templateData) read() Values {
	d.source.varies.Store(true)
	return d.values
}

// Name is the name of the object.
func (d templateData) Name() string { return d.read().Name }

// Namespace is the namespace of the object, empty for a node.
func (d templateData) Namespace() string { return d.read().Namespace }

// Index is the number of the object, from 0.
func (d templateData) Index() int { return d.read().Index }

func newTextSource(text string, params map[string]string) (*textSource, error) {
	s := &textSource{params: params, used: map[string]bool{}}
	var err error
	s.tmpl, err = template.New("template").Funcs(template.FuncMap{
		"param":  s.param,
		"params": s.withPrefix,
		"bytes":  bytesOf,
		"quote":  func(s string) string { return fmt.Sprintf("%q", s) },
	}).Parse(text)
	if err != nil {
		return nil, &TemplateError{err.Error()}
	}
	return s, nil
}

// param is the template function param: the parameter of the command line, or the template's default. Several goroutines render
// concurrently.
func (s *textSource) param(name, otherwise string) string {
	s.mu.Lock()
	s.used[name] = true
	s.mu.Unlock()
	if v, ok := s.params[name]; ok {
		return v
	}
	return otherwise
}

// withPrefix is the template function params: the parameters of the command line that begin with prefix, without it.
func (s *textSource) withPrefix(prefix string) map[string]string {
	s.mu.Lock()
	s.used[prefix+anyName] = true
	s.mu.Unlock()
	found := map[string]string{}
	for key, value := range s.params {
		if name, ok := strings.CutPrefix(key, prefix); ok && name != "" {
			found[name] = value
		}
	}
	return found
}

// anyName stands for the rest of a parameter's name in errors.
const anyName = "NAME"

// isUsed reports whether the template reads a parameter, by its name or by a prefix of it.
func (s *textSource) isUsed(key string) bool {
	if s.used[key] {
		return true
	}
	for used := range s.used {
		if prefix, ok := strings.CutSuffix(used, "."+anyName); ok && strings.HasPrefix(key, prefix+".") && key != prefix+"." {
			return true
		}
	}
	return false
}

// bytesOf is the template function bytes: the number of bytes of a quantity such as 180Mi.
func bytesOf(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return 0, fmt.Errorf("%q is not a size in bytes, such as 180Mi", text)
	}
	return q.Value(), nil
}

func (s *textSource) render(v Values) ([]byte, error) {
	var out bytes.Buffer
	if err := s.tmpl.Execute(&out, templateData{v, s}); err != nil {
		return nil, &TemplateError{err.Error()}
	}
	return out.Bytes(), nil
}

// isFixed implements source: which parts of a template are executed depends on the parameters and on what it reads of the object.
func (s *textSource) isFixed() bool { return !s.varies.Load() }

func (s *textSource) unused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.params)) {
		if !s.isUsed(name) {
			known := slices.Sorted(maps.Keys(s.used))
			return &TemplateError{fmt.Sprintf("--param %s: unknown parameter; the template uses: %s", name, strings.Join(known, ", "))}
		}
	}
	return nil
}

// maker creates objects from a template.
type maker struct {
	source
	want  Kind                    // the kind of the objects; empty: any
	gvk   schema.GroupVersionKind // what the template renders
	fixed object                  // set if the template renders the same text for all objects
}

// newMaker creates the maker of a request.
func newMaker(r Request) (*maker, error) {
	m := &maker{}
	var err error
	switch {
	case r.Resource != nil:
		m.source, err = newResourceSource(r.Resource, r.Programs)
	case r.Template != "":
		m.source, err = newTextSource(r.Template, r.Params)
		if r.Kind == Node || r.Kind == Pod {
			m.want = r.Kind
		}
	default:
		m.source, err = newTextSource(map[Kind]string{Node: nodeTemplate, Pod: podTemplate}[r.Kind], r.Params)
		m.want = r.Kind
	}
	if err != nil {
		return nil, err
	}
	return m, m.probe()
}

// probe renders the template once: to find errors before anything is written, to find the parameters that it uses, and to
// find out whether one decoded object serves for all. Decoding YAML takes as long as writing the object.
func (m *maker) probe() error {
	text, err := m.render(Values{Name: "a-7", Namespace: "a", Index: 7})
	if err != nil {
		return err
	}
	if err := m.unused(); err != nil {
		return err
	}
	obj, err := m.decode(text)
	if err != nil {
		return err
	}
	m.gvk = obj.GetObjectKind().GroupVersionKind()
	if m.isFixed() {
		m.fixed = obj
	}
	return nil
}

// decode decodes an object strictly: into its Go type if its kind is one of Kubernetes, otherwise without a type; then the API
// server checks the fields.
func (m *maker) decode(data []byte) (object, error) {
	what := "an object"
	if m.want != "" {
		what = "a " + string(m.want)
	}
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(data, &head); err != nil {
		return nil, &TemplateError{fmt.Sprintf("the template does not render %s: %s", what, oneLine(err))}
	}
	if m.want != "" {
		if head.Kind != "" && !strings.EqualFold(head.Kind, string(m.want)) {
			return nil, &TemplateError{fmt.Sprintf("the template renders a %s, not a %s", head.Kind, m.want)}
		}
		head = metav1.TypeMeta{APIVersion: "v1", Kind: map[Kind]string{Node: "Node", Pod: "Pod"}[m.want]}
	}
	if head.Kind == "" || head.APIVersion == "" {
		return nil, &TemplateError{"the template does not render an object: apiVersion or kind is missing"}
	}
	gvk := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	var obj object = &unstructured.Unstructured{}
	if typed, err := scheme.Scheme.New(gvk); err == nil {
		if o, ok := typed.(object); ok {
			obj = o
		}
	}
	unknown, err := parse(data, obj)
	if err = errors.Join(err, unknown); err != nil {
		if m.want == "" {
			what = "a valid " + head.Kind
		}
		return nil, &TemplateError{fmt.Sprintf("the template does not render %s: %v", what, err)}
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// parse decodes YAML as the API server does; unknown lists the paths of unknown fields.
func parse(data []byte, into any) (unknown, err error) {
	js, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	if u, ok := into.(*unstructured.Unstructured); ok {
		return nil, u.UnmarshalJSON(js)
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
		if got := obj.GetObjectKind().GroupVersionKind(); got != m.gvk {
			return nil, &TemplateError{fmt.Sprintf("the template renders a %s for %s, and a %s for others", got.Kind, v.Name, m.gvk.Kind)}
		}
	}
	obj.SetName(v.Name)
	obj.SetNamespace(v.Namespace)
	labels := maps.Clone(obj.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[Label] = set
	if _, ok := labels[corev1.LabelHostname]; !ok && m.gvk == nodeGVK {
		labels[corev1.LabelHostname] = v.Name
	}
	obj.SetLabels(labels)
	return obj, nil
}

var (
	nodeGVK = corev1.SchemeGroupVersion.WithKind("Node")
	podGVK  = corev1.SchemeGroupVersion.WithKind("Pod")
)
