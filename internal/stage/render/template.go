package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Facts answers what a template asks and the object does not say. Asked twice
// within one Play it must answer the same.
type Facts interface {
	// NodeIPs are the addresses of a node, the main one first.
	NodeIPs(node string) ([]string, error)
	// PodIPs are the addresses of the pod with this UID on a node. A pod without
	// one is given one that no other pod in use has; it keeps it.
	PodIPs(uid types.UID, node string) ([]string, error)
	// NodePort is the port the nodes' kubelet endpoint is served at, 0 for none.
	NodePort() int
	// Version is the version simulated kubelets report.
	Version() string
	// StartTime is when the engine started.
	StartTime() time.Time
}

// NoFacts implements Facts with no answers.
type NoFacts struct{}

func (NoFacts) NodeIPs(string) ([]string, error)           { return nil, nil }
func (NoFacts) PodIPs(types.UID, string) ([]string, error) { return nil, nil }
func (NoFacts) NodePort() int                              { return 0 }
func (NoFacts) Version() string                            { return "" }
func (NoFacts) StartTime() time.Time                       { return time.Time{} }

// Moment is one rendering: what the template functions read.
type Moment struct {
	Now    time.Time
	Facts  Facts
	Object metav1.Object
	Chance Chance
	Step   int
	Cache  Cache // kept for the next rendering; nil keeps none
}

// Program is a parsed template. It is never run itself: each rendering has a
// session, and runs a clone whose functions read that session.
type Program struct {
	template *template.Template
	of       expr.Form // the objects that it renders
	// sprig are those of sprig's functions that are named in the text.
	sprig template.FuncMap
	text  string
	// unnamed are the functions that are not in the text, once that is known: a
	// rendering can do without them.
	unnamed map[string]bool
	// reads are the parts of a pod or a node that the template may read.
	reads pickedParts
}

// names reports whether the template may call a function. A mention in the text is enough.
func (p *Program) names(function string) bool {
	if p.template == nil {
		p.unnamed[function] = !strings.Contains(p.text, function)
	}
	return !p.unnamed[function]
}

// session is one rendering.
type session struct {
	Moment
	spent int
	drawn uint64 // random functions called so far
}

// Cache keeps templates whose functions are bound, from one rendering to the next.
type Cache map[*Program]*boundTemplate

// boundTemplate is a clone with the session that its functions read.
type boundTemplate struct {
	template *template.Template
	session  session
}

// bind is a clone for a rendering, one that was kept if there is any.
func (p *Program) bind(m Moment) (*boundTemplate, error) {
	if kept := m.Cache[p]; kept != nil {
		return kept, nil
	}
	t, err := p.template.Clone()
	if err != nil {
		return nil, err
	}
	b := &boundTemplate{}
	b.template = t.Funcs(b.session.functions(p))
	if m.Cache != nil {
		m.Cache[p] = b
	}
	return b, nil
}

// Parse parses a stage's template: Go's text/template with sprig's
// functions and KWOK's, less those that read the environment or the network. One
// function is our own: TransitionTime.
func Parse(text string, of expr.Form) (*Program, error) {
	p := &Program{text: text, of: of, sprig: template.FuncMap{}, unnamed: map[string]bool{}}
	for name, f := range sprig.TxtFuncMap() {
		if unsupported[name] == "" && strings.Contains(text, name) {
			p.sprig[name] = f
		}
	}
	s := &session{}
	t, err := template.New("template").Funcs(s.functions(p)).Parse(text)
	if err != nil {
		for name, why := range unsupported {
			if strings.Contains(err.Error(), fmt.Sprintf("function %q not defined", name)) {
				return nil, fmt.Errorf("function %s may not be used: %s", name, why)
			}
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	p.template, p.reads = t, readsOf(t).parts(of)
	return p, s.bound(t)
}

// mostOutput bounds what a template renders: the API takes no larger object.
const mostOutput = 1 << 20

// Render runs the template on an object, or on its JSON values, and returns the
// JSON value its YAML says; nil for one that renders nothing.
func (p *Program) Render(m Moment, of any) (any, error) {
	data, err := templateData(shown(of, p.reads))
	if err != nil {
		return nil, err
	}
	b, err := p.bind(m)
	if err != nil {
		return nil, err
	}
	b.session = session{Moment: m}
	defer func() { b.session = session{} }() // nothing of the object stays, nor of what was spent
	out := limited{most: mostOutput}
	if err := b.template.Execute(&out, data); err != nil {
		var over *limit.Exceeded
		if errors.As(err, &over) {
			return nil, over
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	if value, ok := plainYAML(out.Bytes()); ok {
		return value, nil
	}
	asJSON, err := yaml.YAMLToJSONStrict(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the template does not render YAML: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &value); err != nil {
		return nil, fmt.Errorf("the template does not render YAML: %w", err)
	}
	return value, nil
}

// limited is a buffer that does not grow without end.
type limited struct {
	bytes.Buffer
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.most {
		return 0, &limit.Exceeded{Reason: fmt.Sprintf("the template renders more than %d bytes", l.most)}
	}
	return l.Buffer.Write(p)
}

// templateData is the object as templates see it: its JSON, with numbers as
// they are written. It is a copy, for templates may change it.
func templateData(of any) (any, error) {
	if u, ok := of.(interface{ UnstructuredContent() map[string]any }); ok {
		of = u.UnstructuredContent()
	}
	switch typed := of.(type) {
	case *corev1.Pod, *corev1.Node: // a third of the time of JSON there and back
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			return nil, err
		}
		return asWritten(content), nil
	}
	data, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		return nil, err
	}
	return out, nil
}

// asWritten turns whole numbers into json.Number, in place.
func asWritten(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			if n, ok := v.(int64); ok {
				value[key] = json.Number(strconv.FormatInt(n, 10))
			} else {
				asWritten(v)
			}
		}
	case []any:
		for i, v := range value {
			if n, ok := v.(int64); ok {
				value[i] = json.Number(strconv.FormatInt(n, 10))
			} else {
				asWritten(v)
			}
		}
	}
	return value
}
