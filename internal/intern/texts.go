package intern

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// FillTexts makes an object safe for concurrent readers: a quantity that has an address, such as the size limit of an emptyDir volume, keeps its text at the
// first call of String, which an encoder calls too. FillTexts makes these calls. Quantities of maps, such as requests and limits, have no address.
func FillTexts(obj runtime.Object) {
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && !v.IsNil() {
		fillTexts(v.Elem())
	}
}

func fillTexts(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == quantityType {
			_ = v.Addr().Interface().(*resource.Quantity).String()
			return
		}
		for _, n := range fieldsWithTexts(v.Type()) {
			fillTexts(v.Field(n))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fillTexts(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for n := range v.Len() {
			fillTexts(v.Index(n))
		}
	}
}

// textFields are the exported fields of each struct type under which there may be a quantity with an address ([]int by reflect.Type).
var textFields sync.Map

func fieldsWithTexts(t reflect.Type) []int {
	known, ok := textFields.Load(t)
	if !ok {
		var fields []int
		for n := range t.NumField() {
			if f := t.Field(n); f.IsExported() && holdsQuantity(f.Type, map[reflect.Type]bool{}) {
				fields = append(fields, n)
			}
		}
		known, _ = textFields.LoadOrStore(t, fields)
	}
	return known.([]int)
}

// holdsQuantity reports whether there may be a quantity with an address in a value of a type. visited are the struct types that the search has begun with: a
// type may contain itself, such as the schema of a custom resource.
func holdsQuantity(t reflect.Type, visited map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsQuantity(t.Elem(), visited)
	case reflect.Struct:
		if t == quantityType {
			return true
		}
		if visited[t] {
			return false
		}
		visited[t] = true
		for n := range t.NumField() {
			if f := t.Field(n); f.IsExported() && holdsQuantity(f.Type, visited) {
				return true
			}
		}
	}
	return false
}
