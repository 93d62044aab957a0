package stage

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/stage/fieldpath"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Change is one field in which two versions of an object differ. Before is nil for a new field, After for a removed
// one.
type Change struct {
	Path   string `json:"path"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// String returns the change as text, such as "status.phase: Pending -> Running".
func (c Change) String() string {
	switch {
	case c.Before == nil:
		return c.Path + ": " + brief(c.After)
	case c.After == nil:
		return c.Path + ": " + brief(c.Before) + " -> (gone)"
	}
	return c.Path + ": " + brief(c.Before) + " -> " + brief(c.After)
}

// Changes returns the differences between two versions of an object, sorted by field, without resourceVersion.
// Items of lists are named by their type, name or ip, if they have one. A nil After has no fields.
func Changes(before, after Object) []Change {
	var out []Change
	if after == nil {
		return nil
	}
	a, b := ValuesOf(before), ValuesOf(after)
	for _, values := range []map[string]any{a, b} {
		unstructured.RemoveNestedField(values, "metadata", "resourceVersion")
		unstructured.RemoveNestedField(values, "metadata", "managedFields")
	}
	changes("", a, b, &out)
	return out
}

func changes(path string, before, after any, out *[]Change) {
	if reflect.DeepEqual(before, after) {
		return
	}
	a, isMapA := before.(map[string]any)
	b, isMapB := after.(map[string]any)
	if isMapA && isMapB || isMapA && after == nil && len(a) > 0 || isMapB && before == nil && len(b) > 0 {
		keys := slices.Collect(maps.Keys(a))
		for k := range b {
			if _, both := a[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			changes(fieldpath.Join(path, k), a[k], b[k], out)
		}
		return
	}
	listA, isListA := before.([]any)
	listB, isListB := after.([]any)
	if isListA && (isListB || after == nil) || isListB && before == nil {
		changesOfLists(path, listA, listB, out)
		return
	}
	*out = append(*out, Change{Path: path, Before: before, After: after})
}

func changesOfLists(path string, before, after []any, out *[]Change) {
	index := map[string]any{}
	order := itemNames(before)
	for i, name := range order {
		index[name] = before[i]
	}
	found := map[string]any{}
	for i, name := range itemNames(after) {
		found[name] = after[i]
		if _, both := index[name]; !both {
			order = append(order, name)
		}
	}
	for _, name := range order {
		changes(path+"["+name+"]", index[name], found[name], out)
	}
}

// itemNames returns a unique name for each item of a list. A second item with the same name, such as the second
// InternalIP of a node, is named InternalIP#2.
func itemNames(list []any) []string {
	out := make([]string, len(list))
	seen := map[string]int{}
	for i, item := range list {
		name := fieldpath.Item(item, i)
		if seen[name]++; seen[name] > 1 {
			out[i] = name + "#" + strconv.Itoa(seen[name])
			continue
		}
		out[i] = name
	}
	return out
}

// brief formats a value in one line.
func brief(v any) string {
	const most = 80
	text, ok := v.(string)
	if !ok || text == "" || strings.ContainsAny(text, "\n\t") {
		data, err := json.Marshal(v)
		if err != nil {
			return "?"
		}
		text = string(data)
	}
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
