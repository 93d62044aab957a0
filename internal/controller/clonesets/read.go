package clonesets

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// unreadable is an annotation in the cache, never in the API: why a CloneSet cannot be decoded.
const unreadable = "rehearse-k8s.github.io/unreadable"

// readSet decodes a CloneSet. If that fails, the result has only its metadata and status, and the reason in
// the annotation unreadable.
func readSet(u *unstructured.Unstructured) *v1alpha1.CloneSet {
	set := &v1alpha1.CloneSet{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, set)
	if err == nil {
		return set
	}
	if field, why := unfit(reflect.TypeFor[v1alpha1.CloneSet](), u.Object); why != nil {
		err = fmt.Errorf("%s: %w", strings.TrimPrefix(field, "."), why)
	}
	set = &v1alpha1.CloneSet{}
	known := map[string]any{}
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		if value, ok := u.Object[key]; ok {
			known[key] = value
		}
	}
	if failed := runtime.DefaultUnstructuredConverter.FromUnstructured(known, set); failed != nil {
		set = &v1alpha1.CloneSet{} // a status that another client wrote
		delete(known, "status")
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(known, set) // cannot fail: the API has decoded the metadata
	}
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[unreadable] = err.Error()
	return set
}

// unfit returns the first field of a value that does not fit its type, and the reason; nil if all fit.
func unfit(t reflect.Type, value any) (field string, why error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(text, reflect.New(t).Interface()); err == nil {
		return "", nil
	} else {
		why = fmt.Errorf("%s: %w", text, err)
	}
	inner := func(t reflect.Type, value any, at string) bool {
		deeper, err := unfit(t, value)
		if err != nil {
			field, why = at+deeper, err
		}
		return err != nil
	}
	fields, isMap := value.(map[string]any)
	items, isList := value.([]any)
	switch {
	case t.Kind() == reflect.Pointer:
		return unfit(t.Elem(), value)
	case t.Kind() == reflect.Slice && isList:
		for i, item := range items {
			if inner(t.Elem(), item, fmt.Sprintf("[%d]", i)) {
				break
			}
		}
	case t.Kind() == reflect.Map && isMap:
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if inner(t.Elem(), fields[key], "."+key) {
				break
			}
		}
	case t.Kind() == reflect.Struct && isMap:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" && f.Anonymous {
				if inner(f.Type, value, "") {
					break
				}
			} else if item, ok := fields[name]; ok && inner(f.Type, item, "."+name) {
				break
			}
		}
	}
	return field, why
}
