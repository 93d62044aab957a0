package intern

import (
	"bytes"
	"maps"
	"reflect"
)

// Equal reports whether two values of the same type of an API object are equal. It reads them only. Equal means that no reader can distinguish them: an empty
// list differs from a missing one. Quantities of the same value but another scale, format or text count as different, as do all values of interfaces.
func Equal(a, b reflect.Value) bool { return pass{}.equal(a, b) }

// share replaces the parts of b that are equal to those of a (see Equal) by them, if b can be set, and reports whether all of b is equal to a. It only
// reads a.
func share(a, b reflect.Value) bool { return pass{replaces: true}.equal(a, b) }

// pass is one pass over two values. Without replacements it ends at the first difference.
type pass struct{ replaces bool }

func (p pass) equal(a, b reflect.Value) bool {
	switch b.Kind() {
	case reflect.Struct:
		return p.structs(a, b)
	case reflect.String:
		return a.String() == b.String() && p.replace(a, b)
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return a.UnsafePointer() == b.UnsafePointer() || p.equal(a.Elem(), b.Elem()) && p.replace(a, b)
	case reflect.Slice:
		return p.slices(a, b)
	case reflect.Map:
		return p.maps(a, b) && p.replace(a, b)
	case reflect.Interface: // the contents of unstructured objects
		return a.IsNil() && b.IsNil()
	case reflect.Float32, reflect.Float64:
		return a.Float() == b.Float()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return a.Uint() == b.Uint()
	default:
		return false // no field of an API object has such a type
	}
}

// replace sets b to a in a pass with replacements, if b can be set: the values of a map, and fields that are not exported, cannot. It returns true.
func (p pass) replace(a, b reflect.Value) bool {
	if p.replaces && b.CanSet() {
		b.Set(a)
	}
	return true
}

func (p pass) structs(a, b reflect.Value) bool {
	equal := true
	for n := range b.NumField() {
		if !p.equal(a.Field(n), b.Field(n)) {
			if equal = false; !p.replaces {
				break
			}
		}
	}
	return equal
}

func (p pass) slices(a, b reflect.Value) bool {
	if a.IsNil() != b.IsNil() {
		return false
	}
	n := a.Len()
	equal := n == b.Len()
	if !equal && !p.replaces || equal && a.UnsafePointer() == b.UnsafePointer() {
		return equal
	}
	if b.Type().Elem().Kind() == reflect.Uint8 {
		equal = equal && bytes.Equal(a.Bytes(), b.Bytes())
	} else {
		for i := range min(n, b.Len()) {
			if !p.equal(a.Index(i), b.Index(i)) {
				if equal = false; !p.replaces {
					break
				}
			}
		}
	}
	if equal && n > 0 && p.replaces {
		// Without spare capacity, so that append copies the list.
		p.replace(a.Slice3(0, n, n), b)
	}
	return equal
}

var textsType = reflect.TypeFor[map[string]string]()

func (p pass) maps(a, b reflect.Value) bool {
	if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
		return false
	}
	if a.Len() == 0 || a.UnsafePointer() == b.UnsafePointer() {
		return true
	}
	if b.Type() == textsType && a.CanInterface() && b.CanInterface() {
		return maps.Equal(a.Interface().(map[string]string), b.Interface().(map[string]string))
	}
	for each := b.MapRange(); each.Next(); {
		value := a.MapIndex(each.Key())
		if !value.IsValid() || !p.equal(value, each.Value()) {
			return false
		}
	}
	return true
}
