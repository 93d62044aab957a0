package scenario

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
)

var (
	freeForm  = reflect.TypeFor[json.RawMessage]()
	duration  = reflect.TypeFor[metav1.Duration]()
	variable  = reflect.TypeFor[v1alpha1.EnvVar]()
	ownReader = reflect.TypeFor[json.Unmarshaler]()
)

// decode decodes a value into a Go type, strictly. If the value does not have that shape, it reports
// the errors and returns false.
func (p *problems) decode(a at, into any) bool {
	before := len(p.all)
	if p.shape(a, reflect.TypeOf(into).Elem()); len(p.all) > before {
		return false
	}
	if !a.given() {
		return true
	}
	data, err := json.Marshal(value(a.node))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		p.report(a, "", "cannot be read: %v", err)
	}
	return err == nil
}

// shape compares a value with a Go type by its JSON tags, and reports the differences.
func (p *problems) shape(a at, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !a.given() || t == freeForm {
		return
	}
	switch {
	case t == duration:
		if p.scalar(a, "a duration such as 30s", "!!str") {
			if _, err := time.ParseDuration(a.node.Value); err != nil {
				p.report(a, a.node.Value, "is not a duration; write one such as 30s or 5m")
			}
		}
		return
	case reflect.PointerTo(t).Implements(ownReader):
		data, err := json.Marshal(value(a.node))
		if err == nil {
			err = json.Unmarshal(data, reflect.New(t).Interface())
		}
		if err != nil {
			p.report(a, a.text(), "is not a %s", t.Name())
		}
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if p.kind(a, yaml.MappingNode, "an object"+exampleOf(t)) {
			p.fields(a, t)
		}
	case reflect.Map:
		if p.kind(a, yaml.MappingNode, "an object") {
			for _, entry := range a.entries() {
				p.shape(entry, t.Elem())
			}
		}
	case reflect.Slice:
		if p.kind(a, yaml.SequenceNode, "a list"+exampleOf(t)) {
			for i := range a.node.Content {
				p.shape(a.item(i), t.Elem())
			}
		}
	case reflect.String:
		p.scalar(a, "a text", "!!str", "!!timestamp")
	case reflect.Bool:
		p.scalar(a, "true or false", "!!bool")
	case reflect.Int, reflect.Int32, reflect.Int64:
		if p.scalar(a, "a whole number", "!!int") && a.node.Decode(reflect.New(t).Interface()) != nil {
			p.report(a, a.node.Value, "is too large a number")
		}
	}
}

// fields checks that a struct has every field that is given.
func (p *problems) fields(a at, t reflect.Type) {
	known := fieldsOf(t)
	for key, one := range a.entries() {
		name := keyOf(key)
		n := slices.IndexFunc(known, func(f reflect.StructField) bool { return nameOf(f) == name })
		if n >= 0 {
			p.shape(one, known[n].Type)
			continue
		}
		const most = 12 // a longer list does not help
		var names []string
		for _, f := range known {
			if strings.EqualFold(nameOf(f), name) {
				names = []string{nameOf(f)}
				break
			}
			if names = append(names, nameOf(f)); len(names) > most {
				break
			}
		}
		switch {
		case len(names) > most || len(names) == 0:
			p.report(one, "", "unknown field")
		default:
			p.report(one, "", "unknown field; want %s", oneOf(names))
		}
	}
}

// fieldsOf returns the fields of a struct as JSON has them, with those of embedded structs.
func fieldsOf(t reflect.Type) (fields []reflect.StructField) {
	for f := range t.Fields() {
		switch {
		case f.Anonymous && nameOf(f) == "":
			fields = append(fields, fieldsOf(f.Type)...)
		case f.IsExported() && nameOf(f) != "-":
			fields = append(fields, f)
		}
	}
	return fields
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// exampleOf returns an example of a type that users often write in another shape, such as a map of variables
// or "NAME=value"; "" for other types.
func exampleOf(t reflect.Type) string {
	switch {
	case t == variable:
		return " such as {name: LOG_LEVEL, value: debug}"
	case t.Kind() == reflect.Slice && t.Elem() == variable:
		return " such as [{name: LOG_LEVEL, value: debug}]"
	}
	return ""
}

func (p *problems) kind(a at, kind yaml.Kind, what string) bool {
	if a.node.Kind != kind {
		p.report(a, a.text(), "must be %s and is %s", what, called(a.node))
		return false
	}
	return true
}

func (p *problems) scalar(a at, what string, tags ...string) bool {
	if a.node.Kind == yaml.ScalarNode && slices.Contains(tags, kindOf(a.node)) {
		return true
	}
	reason := fmt.Sprintf("must be %s and is %s", what, called(a.node))
	if a.node.Kind == yaml.ScalarNode && slices.Contains(tags, "!!str") {
		reason += fmt.Sprintf("; write %q", a.node.Value)
	}
	p.report(a, a.text(), "%s", reason)
	return false
}

// called returns what an error message calls a value.
func called(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	switch kindOf(n) {
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	}
	return "a text"
}

// oneOf joins names for a sentence: "a, b or c".
func oneOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
