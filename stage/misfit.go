package stage

import (
	"encoding/json"
	"github.com/rehearse-k8s/rehearse/internal/stage/fieldpath"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// misfit returns the first field, in the order of the keys, whose value does not fit a Go type, and the expected
// type. Both are empty if all values fit.
func misfit(path string, value any, t reflect.Type) (at, why string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil {
		return "", ""
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		data, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(data, reflect.New(t).Interface())
		}
		if err != nil {
			return path, "cannot read " + described(value) + " as " + t.Name() + ": " + strings.Join(strings.Fields(err.Error()), " ")
		}
		return "", ""
	}
	switch t.Kind() {
	case reflect.Struct:
		fields, ok := value.(map[string]any)
		if !ok {
			return path, wanted("object", value)
		}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if f, ok := fieldNamed(t, key); ok {
				if at, why = misfit(fieldpath.Join(path, key), fields[key], f); why != "" {
					return at, why
				}
			}
		}
	case reflect.Map:
		items, ok := value.(map[string]any)
		if !ok {
			return path, wanted("object", value)
		}
		for _, key := range slices.Sorted(maps.Keys(items)) {
			if at, why = misfit(fieldpath.Join(path, key), items[key], t.Elem()); why != "" {
				return at, why
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			if _, ok := value.(string); !ok {
				return path, wanted("string in base64", value)
			}
			return "", ""
		}
		items, ok := value.([]any)
		if !ok {
			return path, wanted("list", value)
		}
		for i, item := range items {
			if at, why = misfit(path+"["+strconv.Itoa(i)+"]", item, t.Elem()); why != "" {
				return at, why
			}
		}
	case reflect.String:
		if _, ok := value.(string); !ok {
			return path, wanted("string", value)
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			return path, wanted("boolean", value)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, ok := value.(int64)
		switch {
		case !ok:
			return path, wanted("whole number", value)
		case t.Kind() != reflect.Int64 && reflect.New(t).Elem().CanInt() && reflect.Zero(t).OverflowInt(n):
			return path, wanted("number of "+strconv.Itoa(t.Bits())+" bits", value)
		}
	case reflect.Float32, reflect.Float64:
		switch value.(type) {
		case int64, float64:
		default:
			return path, wanted("number", value)
		}
	}
	return "", ""
}

// wanted describes the expected and the actual type of a value. YAML reads some unquoted strings as booleans and
// numbers.
func wanted(what string, value any) string {
	text := "want " + what + ", got " + described(value)
	switch value.(type) {
	case bool, int64, float64:
		if strings.HasPrefix(what, "string") {
			text += " (quote it)"
		}
	}
	return text
}

func described(value any) string {
	switch value := value.(type) {
	case bool:
		return "boolean " + strconv.FormatBool(value)
	case int64, float64:
		return "number " + brief(value)
	case string:
		return "string " + limit.Quote(value)
	case []any:
		return "list"
	}
	return "object"
}

// fieldNamed returns the type of the field of a struct, or of an embedded struct, by its JSON name.
func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && tag != "" {
			return f.Type, true
		}
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			if inner, ok := fieldNamed(f.Type, name); ok {
				return inner, true
			}
		}
	}
	return nil, false
}
