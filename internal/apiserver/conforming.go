package apiserver

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// conforming decides which Go types have only values that conform to their schema, apart from duplicates in lists. The
// schema of a built-in kind is generated from its Go type, so this is so for nearly all kinds. Where a value may have any
// content (runtime.RawExtension), or an element of a list may lack all keys of the list, it depends on the value.
type conforming struct {
	schema *schema.Schema
	known  map[typeAndSchema]bool
}

type typeAndSchema struct {
	t            reflect.Type
	name         string
	relationship schema.ElementRelationship // of the reference, instead of that of the named type
}

func newConforming(s *schema.Schema) *conforming {
	return &conforming{schema: s, known: map[typeAndSchema]bool{}}
}

// all reports whether all values of a Go type conform to a schema type.
func (c *conforming) all(t reflect.Type, ref schema.TypeRef) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if ref.NamedType == nil {
		return c.conforms(t, ref)
	}
	key := typeAndSchema{t, *ref.NamedType, ptr.Deref(ref.ElementRelationship, "")}
	if _, ok := c.known[key]; !ok {
		c.known[key] = false // the answer within a type that contains itself
		c.known[key] = c.conforms(t, ref)
	}
	return c.known[key]
}

func (c *conforming) conforms(t reflect.Type, ref schema.TypeRef) bool {
	atom, ok := c.schema.Resolve(ref)
	if !ok {
		return false
	}
	if scalar := scalarOf(t); scalar != "" {
		return atom.Scalar != nil && (*atom.Scalar == scalar || *atom.Scalar == schema.Untyped)
	}
	if isMarshaler(t) {
		return false
	}
	switch t.Kind() {
	case reflect.Struct:
		return atom.Map != nil && c.allFields(t, atom.Map)
	case reflect.Map:
		return atom.Map != nil && len(atom.Map.Fields) == 0 && c.all(t.Elem(), atom.Map.ElementType)
	case reflect.Slice:
		return atom.List != nil && c.identified(t.Elem(), atom.List) && c.all(t.Elem(), atom.List.ElementType)
	default:
		return false
	}
}

// allFields reports whether a schema type has all fields of a struct, and all their values conform to it.
func (c *conforming) allFields(t reflect.Type, fields *schema.Map) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options := jsonName(f)
		switch {
		case name == "-" || f.Type == managedFieldsType:
		case strings.Contains(options, "inline"):
			if f.Type.Kind() != reflect.Struct || !c.allFields(f.Type, fields) {
				return false
			}
		default:
			of := fields.ElementType
			if field, ok := fields.FindField(name); ok {
				of = field.Type
			}
			if !c.all(f.Type, of) {
				return false
			}
		}
	}
	return true
}

// identified reports whether each element of a list has what identifies it: at least one of its keys, or itself, if the list
// is a set.
func (c *conforming) identified(element reflect.Type, list *schema.List) bool {
	if list.ElementRelationship != schema.Associative {
		return true
	}
	if len(list.Keys) == 0 {
		_, nullable := scalars[element]
		return scalarOf(element) != "" && !nullable && element.Kind() != reflect.Slice // nor bytes, which can be null too
	}
	atom, ok := c.schema.Resolve(list.ElementType)
	if !ok || atom.Map == nil || element.Kind() != reflect.Struct || isMarshaler(element) {
		return false
	}
	for _, key := range list.Keys {
		if field, _ := atom.Map.FindField(key); field.Default != nil || alwaysHas(element, key) {
			return true
		}
	}
	return false
}

// managedFieldsType is the type of managed fields. They may have any content, but the server itself has encoded those of a
// live object, and the field manager has removed those of the new one.
var managedFieldsType = reflect.TypeFor[[]metav1.ManagedFieldsEntry]()

// alwaysHas reports whether the JSON of a struct always has a field.
func alwaysHas(t reflect.Type, field string) bool {
	for i := range t.NumField() {
		if name, options := jsonName(t.Field(i)); name == field {
			return !strings.Contains(options, "omit")
		}
	}
	return false
}

// jsonName returns the name of a field in JSON, "-" if it has none, and its options.
func jsonName(f reflect.StructField) (name, options string) {
	name, options, _ = strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		name = f.Name
	}
	return name, options
}

// scalars are the types that encode themselves, as one scalar or null.
var scalars = map[reflect.Type]schema.Scalar{
	reflect.TypeFor[metav1.Time]():        schema.String,
	reflect.TypeFor[metav1.MicroTime]():   schema.String,
	reflect.TypeFor[metav1.Duration]():    schema.String,
	reflect.TypeFor[resource.Quantity]():  schema.String,
	reflect.TypeFor[intstr.IntOrString](): schema.Untyped,
}

// scalarOf returns what scalar the values of a type are, or "".
func scalarOf(t reflect.Type) schema.Scalar {
	if s, ok := scalars[t]; ok {
		return s
	}
	if isMarshaler(t) {
		return ""
	}
	switch t.Kind() {
	case reflect.String:
		return schema.String
	case reflect.Bool:
		return schema.Boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Float32, reflect.Float64:
		return schema.Numeric
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return schema.String
		}
	}
	return ""
}

func isMarshaler(t reflect.Type) bool {
	marshaler := reflect.TypeFor[json.Marshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}
