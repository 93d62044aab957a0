package verdict

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Schema describes a value of an object: whether the order of its lists has a meaning. A nil Schema knows nothing.
type Schema interface {
	// field returns the schema of a field, or of the values of a map. element is that of a list's elements.
	field(name string) Schema
	element() Schema
	// listKeys returns the fields that identify the elements of a list. set: the list is a set, without an order.
	listKeys() (keys []string, set bool)
}

// goSchema is the schema of a Go type, with the struct tags of its field.
type goSchema struct {
	of  reflect.Type
	tag reflect.StructTag
}

// schemaOfType returns the schema of the Go type of a kind; nil if the scheme does not know it.
func schemaOfType(scheme *runtime.Scheme, u *unstructured.Unstructured) Schema {
	if scheme == nil {
		return nil
	}
	if t, ok := scheme.AllKnownTypes()[u.GroupVersionKind()]; ok {
		return goSchema{of: t}
	}
	return nil
}

func (s goSchema) field(name string) Schema {
	t := s.of
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Map:
		return goSchema{of: t.Elem()}
	case reflect.Struct:
		return fieldOf(t, name)
	}
	return nil
}

// structField is a field of a Go type by its name in JSON.
type structField struct {
	of   reflect.Type
	name string
}

// fieldSchemas has the Schema of each structField that was asked for, which is nil if the type has no such field. Each run compares the same
// fields, and to find them in the tags took longer than the comparison.
var fieldSchemas sync.Map

// fieldOf returns the schema of a field of a struct.
func fieldOf(t reflect.Type, name string) Schema {
	if known, ok := fieldSchemas.Load(structField{t, name}); ok {
		s, _ := known.(Schema)
		return s
	}
	s := findField(t, name)
	fieldSchemas.Store(structField{t, name}, s)
	return s
}

func findField(t reflect.Type, name string) Schema {
	for f := range t.Fields() {
		tagged, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tagged == name && name != "":
			return goSchema{of: f.Type, tag: f.Tag}
		case tagged == "" && f.Anonymous:
			if inner := (goSchema{of: f.Type}).field(name); inner != nil {
				return inner
			}
		}
	}
	return nil
}

func (s goSchema) element() Schema {
	t := s.of
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Slice {
		return nil
	}
	return goSchema{of: t.Elem()}
}

func (s goSchema) listKeys() (keys []string, set bool) {
	if key := s.tag.Get("patchMergeKey"); key != "" {
		return []string{key}, false
	}
	return nil, s.tag.Get("patchStrategy") == "merge"
}

// openAPISchema is the schema of a CustomResourceDefinition.
type openAPISchema map[string]any

// schemaOfDefinition returns the schema of a kind in its CustomResourceDefinition; nil if the definition has none.
func schemaOfDefinition(crd *unstructured.Unstructured, version string) Schema {
	field, _, _ := unstructured.NestedFieldNoCopy(crd.Object, "spec", "versions")
	versions, _ := field.([]any)
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["name"] == version {
			return asOpenAPI(v, "schema", "openAPIV3Schema")
		}
	}
	return nil
}

func asOpenAPI(in map[string]any, path ...string) Schema {
	value, ok, _ := unstructured.NestedFieldNoCopy(in, path...)
	if schema, isMap := value.(map[string]any); ok && isMap {
		return openAPISchema(schema)
	}
	return nil
}

func (s openAPISchema) field(name string) Schema {
	if field := asOpenAPI(s, "properties", name); field != nil {
		return field
	}
	return asOpenAPI(s, "additionalProperties")
}

func (s openAPISchema) element() Schema { return asOpenAPI(s, "items") }

func (s openAPISchema) listKeys() (keys []string, set bool) {
	all, _ := s["x-kubernetes-list-map-keys"].([]any)
	for _, key := range all {
		if key, ok := key.(string); ok {
			keys = append(keys, key)
		}
	}
	return keys, s["x-kubernetes-list-type"] == "set"
}

// below returns the schema of a field; nil if nothing is known.
func below(s Schema, name string) Schema {
	if s == nil {
		return nil
	}
	return s.field(name)
}

// addList adds the elements of a list. If the schema names their keys, each has its keys in its path; if the
// list has no order, the elements are sorted; otherwise they keep their order. Only a spec is known to have an order:
// the same elements of, say, a status in another order are no difference.
func (f fields) addList(path string, list []any, s Schema, r objectReplacements) {
	var keys []string
	var of Schema
	set := !strings.HasPrefix(path, ".spec.")
	if s != nil {
		var isSet bool
		keys, isSet = s.listKeys()
		set = set || isSet
		of = s.element()
	}
	if names := keyed(list, keys, r); names != nil {
		for n, inner := range list {
			f.add(path+"["+names[n]+"]", inner, of, r)
		}
		return
	}
	var elements []fields
	for _, inner := range list {
		if s, ok := inner.(string); ok && strings.HasPrefix(s, ownPrefix) {
			continue
		}
		element := fields{}
		element.add(path+"[0]", inner, of, r)
		elements = append(elements, element)
	}
	if set {
		slices.SortStableFunc(elements, func(a, b fields) int { return strings.Compare(a.text(), b.text()) })
	}
	f.put(path, elements)
}

// put adds the elements of a list, whose paths begin with the list and the index 0, in their order.
func (f fields) put(list string, elements []fields) {
	for n, element := range elements {
		for path, value := range element {
			f[list+"["+strconv.Itoa(n)+"]"+strings.TrimPrefix(path, list+"[0]")] = value
		}
	}
}

// text is equal for equal fields.
func (f fields) text() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "%s=%s\n", path, f[path])
	}
	return b.String()
}

// keyed returns "key=value" for each element of a list, by the keys of its schema; nil if there are no keys, or if they
// do not identify the elements. UIDs and generated names among the values are replaced, as they are in fields.
func keyed(list []any, keys []string, r objectReplacements) (names []string) {
	seen := map[string]bool{}
	for _, one := range list {
		element, ok := one.(map[string]any)
		if !ok || len(keys) == 0 {
			return nil
		}
		var parts []string
		for _, key := range keys {
			if value, ok := element[key]; ok {
				text := fmt.Sprint(value)
				if _, err := netip.ParseAddr(text); err == nil {
					return nil // the addresses of pods and nodes differ between runs
				}
				parts = append(parts, key+"="+withoutGeneratedEnd(r.text(text)))
			}
		}
		name := strings.Join(parts, ",")
		if name == "" || seen[name] || strings.ContainsAny(name, "[]") {
			return nil
		}
		seen[name] = true
		names = append(names, name)
	}
	return names
}

// withoutGeneratedEnd replaces the part of a name that was probably generated, such as that of the volume
// kube-api-access-bcdfg, which admission adds to each pod.
func withoutGeneratedEnd(name string) string {
	if at := strings.LastIndexByte(name, '-'); at > 0 && isGenerated(name[at+1:]) {
		return name[:at] + "-*"
	}
	return name
}

// listsOf returns the paths of the lists that contain a field, the outermost first.
func listsOf(path string) (lists []string) {
	for n := range path {
		if path[n] != '[' {
			continue
		}
		if end := strings.IndexByte(path[n:], ']'); end > 1 && strings.Trim(path[n+1:n+end], "0123456789") == "" {
			lists = append(lists, path[:n])
		}
	}
	return lists
}

// elements returns the elements of a list in their order, with the index 0 in their paths, and the other fields.
func (f fields) elements(list string) (elements []fields, others fields) {
	others = fields{}
	for path, value := range f {
		rest, ok := strings.CutPrefix(path, list+"[")
		index, suffix, _ := strings.Cut(rest, "]")
		n, err := strconv.Atoi(index)
		if !ok || err != nil {
			others[path] = value
			continue
		}
		for len(elements) <= n {
			elements = append(elements, fields{})
		}
		elements[n][list+"[0]"+suffix] = value
	}
	return elements, others
}

// unordered returns the fields with the elements of a list in an order that does not depend on the run.
func (f fields) unordered(list string) fields {
	elements, sorted := f.elements(list)
	slices.SortStableFunc(elements, func(a, b fields) int { return strings.Compare(a.text(), b.text()) })
	sorted.put(list, elements)
	return sorted
}

// sameElements reports whether a list has the same elements in two objects, in whatever order.
func sameElements(list string, f, g fields) bool {
	a, _ := f.elements(list)
	b, _ := g.elements(list)
	if len(a) != len(b) {
		return false
	}
	texts := func(elements []fields) (texts []string) {
		for _, e := range elements {
			texts = append(texts, e.text())
		}
		slices.Sort(texts)
		return texts
	}
	return slices.Equal(texts(a), texts(b))
}
