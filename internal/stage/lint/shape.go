package lint

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/nearest"
	"github.com/rehearse-k8s/rehearse/internal/stage/fieldpath"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"go.yaml.in/yaml/v3"
)

// mostShapes bounds how many values are looked at: aliases can make a short
// document very large.
const mostShapes = 100_000

// shapeCheck holds a YAML tree against a Go type by its JSON tags.
type shapeCheck struct {
	// prune takes away what does not fit, so that the rest can be decoded.
	prune bool
	// directives allows the keys of strategic merges, such as $patch.
	directives bool
	left       int
	report     func(path string, at *yaml.Node, text string)
}

// check reports whether a value is of a type. What is wrong inside it is reported and, where it is pruned, does
// not count against the value.
func (s *shapeCheck) check(path string, n *yaml.Node, t reflect.Type) bool {
	if s.left--; s.left < 0 {
		return true
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Tag == "!!null" && n.Kind == yaml.ScalarNode {
		return true
	}
	t = expr.Deref(t)
	if expr.HasOwnJSON(t) {
		return s.ownForm(path, n, t)
	}
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Struct:
		return s.expect(path, n, yaml.MappingNode, "an object", func() { s.fields(path, n, t) })
	case reflect.Map:
		return s.expect(path, n, yaml.MappingNode, "an object", func() { s.entries(path, n, t) })
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return s.scalar(path, n, "a text", "!!str", "!!binary")
		}
		return s.expect(path, n, yaml.SequenceNode, "a list", func() {
			for i, item := range n.Content {
				if !s.check(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()) && s.prune {
					n.Content[i] = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: item.Line, Column: item.Column}
				}
			}
		})
	case reflect.String:
		return s.scalar(path, n, "a text", "!!str", "!!timestamp")
	case reflect.Bool:
		return s.scalar(path, n, "true or false", "!!bool")
	case reflect.Float32, reflect.Float64:
		return s.scalar(path, n, "a number", "!!int", "!!float")
	}
	return s.scalar(path, n, "a whole number", "!!int")
}

func (s *shapeCheck) expect(path string, n *yaml.Node, kind yaml.Kind, what string, inside func()) bool {
	if n.Kind != kind {
		s.report(path, n, fmt.Sprintf("must be %s, not %s", what, called(n)))
		return false
	}
	inside()
	return true
}

func (s *shapeCheck) scalar(path string, n *yaml.Node, what string, tags ...string) bool {
	tag := n.ShortTag()
	if n.Style == 0 && oldTruths[n.Value] {
		tag = "!!bool"
	}
	if n.Kind == yaml.ScalarNode && slices.Contains(tags, tag) {
		return true
	}
	text := fmt.Sprintf("must be %s, not %s", what, called(n))
	if what == "a text" && n.Kind == yaml.ScalarNode {
		text += fmt.Sprintf("; write %q", n.Value)
	}
	s.report(path, n, text)
	return false
}

// oldTruths are truth values to those who read YAML as Kubernetes does.
var oldTruths = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": true, "N": true, "no": true, "No": true, "NO": true, "off": true, "Off": true, "OFF": true,
}

// ownForm tries a type that reads its own JSON: times, quantities and the like.
func (s *shapeCheck) ownForm(path string, n *yaml.Node, t reflect.Type) bool {
	var value any
	err := n.Decode(&value)
	if n.ShortTag() == "!!timestamp" {
		value = n.Value // which YAML would read for us
	}
	var data []byte
	if err == nil {
		data, err = json.Marshal(value)
	}
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		s.report(path, n, fmt.Sprintf("is %s, not a %s", called(n), t.Name()))
	}
	return err == nil
}

func (s *shapeCheck) fields(path string, n *yaml.Node, t reflect.Type) {
	known := jsonFields(t)
	seen := map[string]bool{}
	keep := n.Content[:0:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		field, ok := known[key.Value]
		switch {
		case key.Tag == "!!merge":
			s.check(path, value, t)
			ok = true
		case s.directives && strings.HasPrefix(key.Value, "$"):
			ok = true
		case !ok:
			s.report(at, key, "unknown field"+meant(key.Value, known))
		case seen[key.Value]:
			s.report(at, key, "is repeated")
			ok = false
		default:
			seen[key.Value] = true
			ok = s.check(at, value, field)
		}
		if ok || !s.prune {
			keep = append(keep, key, value)
		}
	}
	n.Content = keep
}

func (s *shapeCheck) entries(path string, n *yaml.Node, t reflect.Type) {
	seen := map[string]bool{}
	keep := n.Content[:0:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := fieldpath.Join(path, key.Value)
		ok := true
		switch {
		case key.Tag == "!!merge", s.directives && strings.HasPrefix(key.Value, "$"):
		case seen[key.Value]:
			s.report(at, key, "is repeated")
			ok = false
		default:
			seen[key.Value] = true
			ok = s.check(at, value, t.Elem())
		}
		if ok || !s.prune {
			keep = append(keep, key, value)
		}
	}
	n.Content = keep
}

// called is a value for a sentence.
func called(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return called(n.Alias)
	}
	switch tag := n.ShortTag(); {
	case n.Style == 0 && oldTruths[n.Value]:
		return n.Value + ", a truth value in YAML"
	case tag == "!!bool" || tag == "!!int" || tag == "!!float":
		return n.Value
	}
	return "the text " + limit.Quote(n.Value)
}

// jsonFields are the fields of a struct by their JSON names, embedded ones
// included.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			for k, v := range jsonFields(expr.Deref(f.Type)) {
				out[k] = v
			}
		case name != "":
			out[name] = f.Type
		}
	}
	return out
}

// meant names the field that is nearest to one that does not exist.
func meant[T any](name string, known map[string]T) string {
	best, least := "", 3
	for k := range known {
		if d := nearest.Distance(strings.ToLower(name), strings.ToLower(k)); d < least || d == least && best != "" && k < best {
			best, least = k, d
		}
	}
	if best == "" || least >= len(name) {
		return ""
	}
	return "; did you mean " + best + "?"
}
