package rehearsal

import (
	"encoding/json"
	"reflect"
	"slices"
)

// write is the effect of one write on an object. was is nil if the write created the object, is is nil if it
// deleted it.
type write struct{ was, is map[string]any }

// absent is the value of a field that an object does not have.
type absent struct{}

// revert returns an object without the changes of the writes of a run, oldest first. A field that the run
// wrote last gets the value from before; a field that others have written since, or that the run never wrote,
// stays as it is. revert does not change now. It keeps the status and the metadata that the API server
// writes.
func revert(writes []write, now map[string]any) map[string]any {
	edits := make([]edit, 0, len(writes))
	for _, w := range writes {
		if w.was != nil && w.is != nil {
			edits = append(edits, edit{withoutStatus(w.was), withoutStatus(w.is)})
		}
	}
	reverted, _ := revertValue(edits, withoutStatus(now)).(map[string]any)
	out := make(map[string]any, len(now))
	for k, v := range reverted {
		out[k] = v
	}
	if status, ok := now["status"]; ok {
		out["status"] = status
	}
	meta, _ := now["metadata"].(map[string]any)
	to, _ := out["metadata"].(map[string]any)
	for _, field := range serverFields {
		if v, ok := meta[field]; ok {
			to[field] = v
		}
	}
	return out
}

// serverFields are the metadata fields that the API server writes.
var serverFields = []string{
	"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
}

func withoutStatus(o map[string]any) map[string]any {
	out := make(map[string]any, len(o))
	for k, v := range o {
		if k != "status" {
			out[k] = v
		}
	}
	if meta, ok := o["metadata"].(map[string]any); ok {
		bare := make(map[string]any, len(meta))
		for k, v := range meta {
			if !slices.Contains(serverFields, k) {
				bare[k] = v
			}
		}
		out["metadata"] = bare
	}
	return out
}

// edit is the value of one field before and after a write.
type edit struct{ was, is any }

// revertValue reverts the edits of one field, oldest first.
func revertValue(edits []edit, now any) any {
	if edits = changed(edits); len(edits) == 0 {
		return now
	}
	if fields, ok := now.(map[string]any); ok && all(edits, isMapOrAbsent) {
		out := revertFields(edits, fields)
		if _, was := edits[0].was.(absent); was && len(out) == 0 {
			return absent{}
		}
		return out
	}
	value, whole := revertWhole(edits, now)
	if list, ok := now.([]any); ok && !whole && all(edits, isListOrAbsent) {
		if key, ok := keyOfItems(edits, list); ok {
			out := revertItems(edits, list, key)
			if _, was := edits[0].was.(absent); was && len(out) == 0 {
				return absent{}
			}
			return out
		}
	}
	return value
}

// revertWhole reverts the edits of a field as a whole, back to the last value that others have written.
// whole: it reverted all edits.
func revertWhole(edits []edit, now any) (value any, whole bool) {
	value = now
	for _, e := range slices.Backward(edits) {
		if !reflect.DeepEqual(e.is, value) {
			return value, false
		}
		value = e.was
	}
	return value, true
}

func all(edits []edit, is func(any) bool) bool {
	return !slices.ContainsFunc(edits, func(e edit) bool { return !is(e.was) || !is(e.is) })
}

func isMapOrAbsent(v any) bool {
	switch v.(type) {
	case map[string]any, absent:
		return true
	}
	return false
}

func isListOrAbsent(v any) bool {
	switch v.(type) {
	case []any, absent:
		return true
	}
	return false
}

func revertFields(edits []edit, now map[string]any) map[string]any {
	names := map[string]bool{}
	for k := range now {
		names[k] = true
	}
	for _, e := range edits {
		for _, side := range []any{e.was, e.is} {
			fields, _ := side.(map[string]any)
			for k := range fields {
				names[k] = true
			}
		}
	}
	out := make(map[string]any, len(now))
	for name := range names {
		inner := make([]edit, len(edits))
		for i, e := range edits {
			inner[i] = edit{field(e.was, name), field(e.is, name)}
		}
		if v := revertValue(inner, field(now, name)); v != any(absent{}) {
			out[name] = v
		}
	}
	return out
}

// field returns a field of a map, or absent.
func field(of any, name string) any {
	fields, _ := of.(map[string]any)
	if v, ok := fields[name]; ok {
		return v
	}
	return absent{}
}

// itemKeys are the fields that may identify the items of a list, the most specific one first. "" stands for
// the item itself.
var itemKeys = []string{"", "uid", "name", "type", "key"}

// keyOfItems returns the field that identifies the items of a list in all its states.
func keyOfItems(edits []edit, now []any) (string, bool) {
	states := [][]any{now}
	for _, e := range edits {
		for _, side := range []any{e.was, e.is} {
			if list, ok := side.([]any); ok {
				states = append(states, list)
			}
		}
	}
	for _, key := range itemKeys {
		if !slices.ContainsFunc(states, func(list []any) bool { return !distinguishes(list, key) }) {
			return key, true
		}
	}
	return "", false
}

func distinguishes(list []any, key string) bool {
	seen := map[string]bool{}
	for _, item := range list {
		name, ok := nameOfItem(item, key)
		if !ok || seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}

func nameOfItem(item any, key string) (string, bool) {
	if key != "" {
		item = field(item, key)
	}
	switch item.(type) {
	case absent, map[string]any, []any, nil:
		return "", false
	}
	name, err := json.Marshal(item)
	return string(name), err == nil
}

// revertItems reverts a list item by item. Restored items are appended.
func revertItems(edits []edit, now []any, key string) []any {
	find := func(list any, name string) any {
		items, _ := list.([]any)
		for _, item := range items {
			if is, _ := nameOfItem(item, key); is == name {
				return item
			}
		}
		return absent{}
	}
	var names []string
	note := func(list any) {
		items, _ := list.([]any)
		for _, item := range items {
			if name, _ := nameOfItem(item, key); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	note(now)
	for _, e := range edits {
		note(e.was)
	}
	out := []any{}
	for _, name := range names {
		inner := make([]edit, len(edits))
		for i, e := range edits {
			inner[i] = edit{find(e.was, name), find(e.is, name)}
		}
		if v := revertItem(inner, find(now, name)); v != any(absent{}) {
			out = append(out, v)
		}
	}
	return out
}

// revertItem reverts one item. An item that a write added or removed is reverted as a whole.
func revertItem(edits []edit, now any) any {
	edits = changed(edits)
	if slices.ContainsFunc(edits, func(e edit) bool { return e.was == any(absent{}) || e.is == any(absent{}) }) {
		now, _ = revertWhole(edits, now)
		return now
	}
	return revertValue(edits, now)
}

// changed returns the edits that changed something.
func changed(edits []edit) []edit {
	return slices.DeleteFunc(slices.Clone(edits), func(e edit) bool { return reflect.DeepEqual(e.was, e.is) })
}
