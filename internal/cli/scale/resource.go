package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/itchyny/gojq"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/internal/stage/render"
	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
	"github.com/rehearse-k8s/rehearse/internal/version"
	"github.com/rehearse-k8s/rehearse/stage"
)

// Resource is a KwokctlResource (config.kwok.x-k8s.io/v1alpha1): a template of objects, with default values of its parameters.
type Resource struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Template   string          `json:"template"`
}

// FindResource returns the KwokctlResource of a name in a file. Documents of other kinds have no effect.
func FindResource(file string, data []byte, name string) (*Resource, error) {
	var found *Resource
	var names []string
	for _, whole := range stage.Documents(data) {
		for _, d := range whole.Items() {
			var head metav1.TypeMeta
			if err := yaml.Unmarshal(d.Text(), &head); err != nil {
				return nil, &TemplateError{fmt.Sprintf("%s:%d: %s", file, d.Line(), oneLine(err))}
			}
			if head.Kind != stagefiles.KwokctlResourceKind {
				continue
			}
			r := &Resource{}
			unknown, err := parse(d.Text(), r)
			if err == nil {
				err = unknown
			}
			if err != nil {
				return nil, &TemplateError{fmt.Sprintf("%s:%d: %s: %s", file, d.Line(), head.Kind, oneLine(err))}
			}
			names = append(names, r.Metadata.Name)
			if r.Metadata.Name != name {
				continue
			}
			if found != nil {
				return nil, &TemplateError{fmt.Sprintf("%s:%d: %s %q: is in the file twice", file, d.Line(), head.Kind, name)}
			}
			if r.Template == "" {
				return nil, &TemplateError{fmt.Sprintf("%s:%d: %s %q: template: is missing", file, d.Line(), head.Kind, name)}
			}
			found = r
		}
	}
	switch {
	case found != nil:
		return found, nil
	case len(names) == 0:
		return nil, &TemplateError{fmt.Sprintf("%s: contains no %s", file, stagefiles.KwokctlResourceKind)}
	}
	slices.Sort(names)
	return nil, &TemplateError{fmt.Sprintf("%s: contains no %s named %q; it has: %s", file, stagefiles.KwokctlResourceKind, name, strings.Join(names, ", "))}
}

// resourceSource renders the template of a KwokctlResource.
type resourceSource struct {
	tmpl   *template.Template
	params any
}

// programTimeout limits a jq program, which may loop forever.
const programTimeout = 5 * time.Second

// newResourceSource parses the template, and applies programs to the parameters, in this order.
func newResourceSource(r *Resource, programs []string) (*resourceSource, error) {
	params, err := decodeNumbers(r.Parameters)
	if err != nil {
		return nil, &TemplateError{fmt.Sprintf("parameters: %s", oneLine(err))}
	}
	for _, p := range programs {
		if params, err = applyProgram(p, params); err != nil {
			return nil, &TemplateError{fmt.Sprintf("--param %s: %s", p, oneLine(err))}
		}
	}
	s := &resourceSource{params: params}
	s.tmpl, err = template.New("template").Funcs(render.PlainFunctions()).Funcs(s.functions(Values{})).Parse(r.Template)
	if err != nil {
		return nil, &TemplateError{err.Error()}
	}
	return s, nil
}

// decodeNumbers decodes JSON with whole numbers as int, so that a template prints 1000000 and not 1e+06.
func decodeNumbers(data []byte) (any, error) {
	if len(data) == 0 {
		return map[string]any{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return wholeNumbers(v), err
}

func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = wholeNumbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64() // the decoder has checked it
		return f
	}
	return v
}

// applyProgram runs a jq program on the parameters. It must have exactly one result.
func applyProgram(program string, params any) (any, error) {
	query, err := gojq.Parse(program)
	if err != nil {
		return nil, fmt.Errorf("is not a jq program such as .allocatable.cpu=8: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), programTimeout)
	defer cancel()
	var results []any
	for iter := query.RunWithContext(ctx, params); len(results) < 2; {
		v, ok := iter.Next()
		if !ok {
			break
		}
		if err, failed := v.(error); failed {
			return nil, err
		}
		results = append(results, v)
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("must have exactly one result, the new parameters")
	}
	return results[0], nil
}

// functions are KWOK's functions of these templates that depend on the object or the moment.
func (s *resourceSource) functions(v Values) template.FuncMap {
	now := func() string { return time.Now().UTC().Format(time.RFC3339Nano) }
	return template.FuncMap{
		"Name":      func() string { return v.Name },
		"Namespace": func() string { return v.Namespace },
		"Index":     func() int { return v.Index },
		"AddCIDR":   addCIDR,
		"AddIP":     addIP,
		"Now":       now,
		"StartTime": now,
		"Version":   func() string { return version.Get().Version },
	}
}

// render renders the template for one object. The functions differ per object, so each rendering uses a copy of the template.
func (s *resourceSource) render(v Values) ([]byte, error) {
	t, err := s.tmpl.Clone()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Funcs(s.functions(v)).Execute(&out, s.params); err != nil {
		return nil, &TemplateError{err.Error()}
	}
	return out.Bytes(), nil
}

// isFixed implements source. Sprig has random functions, so two equal renderings say nothing about the next one.
func (s *resourceSource) isFixed() bool { return false }

// unused reports no parameter: the programs are those of the user.
func (s *resourceSource) unused() error { return nil }

// addIP returns the n-th address after an address.
func addIP(ip string, n int) (string, error) {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return "", err
	}
	out, err := advance(a, big.NewInt(int64(n)))
	return out.String(), err
}

// addCIDR returns the n-th range after a range of the same size.
func addCIDR(cidr string, n int) (string, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", err
	}
	step := new(big.Int).Lsh(big.NewInt(int64(n)), uint(p.Addr().BitLen()-p.Bits()))
	a, err := advance(p.Addr(), step)
	return netip.PrefixFrom(a, p.Bits()).String(), err
}

func advance(a netip.Addr, by *big.Int) (netip.Addr, error) {
	sum := new(big.Int).SetBytes(a.AsSlice())
	sum.Add(sum, by)
	if sum.Sign() < 0 || sum.BitLen() > a.BitLen() {
		return netip.Addr{}, fmt.Errorf("%s plus %s is not an address", a, by)
	}
	out, _ := netip.AddrFromSlice(sum.FillBytes(make([]byte, a.BitLen()/8)))
	return out, nil
}

// oneLine is an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
