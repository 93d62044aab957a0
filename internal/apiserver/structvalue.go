package apiserver

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/rehearse-k8s/rehearse/internal/intern"
)

// structValue is a value of upstream that reads a struct. Upstream compares the old and the new object of each update to find
// the fields that changed, and visits each field of both. A write of a status changes nothing in the specification, so a
// structValue leaves out the fields that are equal in both objects (intern.Equal): they add nothing to the comparison, if the
// objects conform to their schema (conforming).
//
// Upstream reads two structs together (Zip) also to merge the patch of an apply into an object, and there all fields matter. It
// never merges two structValues: a patch is not a Go struct.
type structValue struct {
	value.Value
	of reflect.Value
}

// newStructValue returns the value of an object, which is a pointer to a struct.
func newStructValue(object any) (value.Value, error) {
	v, err := value.NewValueReflect(object)
	if err != nil {
		return nil, err
	}
	return withStructs(v, reflect.ValueOf(object)), nil
}

// withStructs returns v, which upstream has made of the Go value of, as a structValue or a structList if it is a struct, or a list of
// structs.
func withStructs(v value.Value, of reflect.Value) value.Value {
	if v == nil || value.TypeReflectEntryOf(of.Type()).CanConvertToUnstructured() {
		return v
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of.Kind() == reflect.Struct:
		return structValue{v, of}
	case of.Kind() == reflect.Slice && of.Type().Elem().Kind() == reflect.Struct && v.IsList():
		return structList{v, of}
	default:
		return v
	}
}

// AsMap implements value.Value.
func (v structValue) AsMap() value.Map { return structMap{v.Value.AsMap(), v.of} }

// AsMapUsing implements value.Value.
func (v structValue) AsMapUsing(value.Allocator) value.Map { return v.AsMap() }

// structMap is the map of a structValue.
type structMap struct {
	value.Map
	of reflect.Value
}

// Zip implements value.Map. It leaves out the fields that are equal.
func (m structMap) Zip(other value.Map, order value.MapTraverseOrder, visit func(key string, l, r value.Value) bool) bool {
	return m.ZipUsing(value.HeapAllocator, other, order, visit)
}

// ZipUsing implements value.Map. It leaves out the fields that are equal.
func (m structMap) ZipUsing(a value.Allocator, other value.Map, order value.MapTraverseOrder, visit func(key string, l, r value.Value) bool) bool {
	o, ok := other.(structMap)
	if !ok || o.of.Type() != m.of.Type() {
		return m.Map.ZipUsing(a, other, order, visit)
	}
	for _, f := range value.TypeReflectEntryOf(m.of.Type()).OrderedFields() {
		if intern.Equal(f.GetFrom(m.of), f.GetFrom(o.of)) {
			continue
		}
		l, r := m.field(f), o.field(f)
		if (l != nil || r != nil) && !visit(f.JsonName, l, r) {
			return false
		}
	}
	return true
}

// field returns the value of a field, nil if its JSON does not have the field.
func (m structMap) field(f *value.FieldCacheEntry) value.Value {
	of := f.GetFrom(m.of)
	if t, ok := microTime(of); ok {
		return t
	}
	v, ok := m.Map.Get(f.JsonName)
	if !ok {
		return nil
	}
	return withStructs(v, of)
}

// microTime returns the value of a pointer to a MicroTime that is not zero. Upstream reads the text of a time through a JSON decoder, unless its type
// has ToUnstructured, which metav1.Time has and MicroTime does not: 5 KB for each renewal of a lease.
func microTime(of reflect.Value) (value.Value, bool) {
	if of.Type() != reflect.TypeFor[*metav1.MicroTime]() {
		return nil, false
	}
	t := of.Interface().(*metav1.MicroTime)
	if t.IsZero() {
		return nil, false // also a nil pointer
	}
	return value.NewValueInterface(t.UTC().Format(metav1.RFC3339Micro)), true
}

// Equals implements value.Map.
func (m structMap) Equals(other value.Map) bool { return m.EqualsUsing(value.HeapAllocator, other) }

// EqualsUsing implements value.Map: upstream compares two structs faster if it knows that both are.
func (m structMap) EqualsUsing(a value.Allocator, other value.Map) bool {
	if o, ok := other.(structMap); ok {
		other = o.Map
	}
	return m.Map.EqualsUsing(a, other)
}

// structList is the value of a list of structs, whose elements are structValues.
type structList struct {
	value.Value
	of reflect.Value
}

// AsList implements value.Value.
func (v structList) AsList() value.List { return listOfStructs{v.Value.AsList(), v.of} }

// AsListUsing implements value.Value.
func (v structList) AsListUsing(value.Allocator) value.List { return v.AsList() }

// listOfStructs is the list of a structList.
type listOfStructs struct {
	value.List
	of reflect.Value
}

// At implements value.List.
func (l listOfStructs) At(i int) value.Value { return withStructs(l.List.At(i), l.of.Index(i)) }

// AtUsing implements value.List.
func (l listOfStructs) AtUsing(_ value.Allocator, i int) value.Value { return l.At(i) }

// Equals implements value.List.
func (l listOfStructs) Equals(other value.List) bool {
	return l.EqualsUsing(value.HeapAllocator, other)
}

// EqualsUsing implements value.List: upstream compares the Go values of two lists if it knows them.
func (l listOfStructs) EqualsUsing(a value.Allocator, other value.List) bool {
	if o, ok := other.(listOfStructs); ok {
		other = o.List
	}
	return l.List.EqualsUsing(a, other)
}
