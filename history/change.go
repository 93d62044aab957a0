package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Change is what a step did to one object. A record has changes only if its caller asked for them: a
// search drops most of its runs, and only the run that people read needs the contents of objects.
// Changes are not part of the hash, which covers the digests.
type Change struct {
	Object
	Revision int64 `json:"rev"`
	// Was is the object before the step. It is set only if no earlier change of the run has it: the
	// object existed when the run began.
	Was json.RawMessage `json:"was,omitempty"`
	// Patch is a JSON merge patch (RFC 7386) from the object before to the object after the step. Gone
	// says that the object was deleted.
	Patch json.RawMessage `json:"patch,omitempty"`
	Gone  bool            `json:"gone,omitempty"`
}

// ChangeOf returns the difference between an object before and after a write; nil means that the
// object did not exist. It omits what says nothing about a controller, which is managedFields and
// nulls, and the values of Secrets, because records are shared. With first, the change also
// contains the object before the write.
func ChangeOf(o Object, revision int64, before, after map[string]any, first bool) (c Change, err error) {
	c = Change{Object: o, Revision: revision}
	was, is := presentable(o, before), presentable(o, after)
	if first && was != nil {
		if c.Was, err = marshal(was); err != nil {
			return c, fmt.Errorf("history: %s: %w", o, err)
		}
	}
	if is == nil {
		c.Gone = true
		return c, nil
	}
	if c.Patch, err = marshal(MergePatch(was, is)); err != nil {
		return c, fmt.Errorf("history: %s: %w", o, err)
	}
	return c, nil
}

// Apply returns the object after the change, or nil after a delete. before is the result of the
// earlier changes; Apply does not modify it.
func (c *Change) Apply(before map[string]any) (map[string]any, error) {
	if c.Gone {
		return nil, nil
	}
	if c.Was != nil {
		before = nil
		if err := unmarshal(c.Was, &before); err != nil {
			return nil, err
		}
	}
	var patch map[string]any
	if err := unmarshal(c.Patch, &patch); err != nil {
		return nil, err
	}
	return Merged(before, patch), nil
}

// Before returns the object before the change, or nil if the change does not contain it.
func (c *Change) Before() map[string]any {
	var was map[string]any
	if c.Was == nil || unmarshal(c.Was, &was) != nil {
		return nil
	}
	return was
}

// check rejects a change that ChangeOf cannot return.
func (c *Change) check() error {
	if c.Gone != (c.Patch == nil) {
		return errors.New("a change must have either a patch or gone")
	}
	for _, raw := range []*json.RawMessage{&c.Was, &c.Patch} {
		if *raw == nil {
			continue
		}
		var b bytes.Buffer
		if err := json.Compact(&b, *raw); err != nil || b.Bytes()[0] != '{' {
			return errors.New("was and patch must be JSON objects")
		}
		*raw = b.Bytes()
	}
	return nil
}

func marshal(v map[string]any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// unmarshal decodes numbers as json.Number: a float64 cannot represent every revision.
func unmarshal(raw json.RawMessage, into *map[string]any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return dec.Decode(into)
}

// MergePatch returns the patch (RFC 7386) that changes was to is.
//
// MergePatch and Merged do not use the library evanphx/json-patch, which the API server uses: it
// creates a patch by decoding all numbers to float64, which changes large ones, and it applies a
// patch by decoding and encoding the whole object, where a report applies thousands of patches that
// change a few fields.
func MergePatch(was, is map[string]any) map[string]any {
	patch := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(is)) {
		old, had := was[k]
		oldMap, a := old.(map[string]any)
		newMap, b := is[k].(map[string]any)
		switch {
		case had && a && b:
			if p := MergePatch(oldMap, newMap); len(p) > 0 {
				patch[k] = p
			}
		case !had || !reflect.DeepEqual(old, is[k]):
			patch[k] = is[k]
		}
	}
	for k := range was {
		if _, still := is[k]; !still {
			patch[k] = nil
		}
	}
	return patch
}

// Merged returns before with the patch applied. The result shares the unchanged parts with before.
func Merged(before, patch map[string]any) map[string]any {
	out := maps.Clone(before)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range patch {
		switch p, isMap := v.(map[string]any); {
		case v == nil:
			delete(out, k)
		case isMap:
			old, _ := out[k].(map[string]any)
			out[k] = Merged(old, p)
		default:
			out[k] = v
		}
	}
	return out
}

// presentable returns a copy of an object without the fields that a record omits.
func presentable(o Object, object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	out, _ := withoutNulls(object).(map[string]any)
	if meta, ok := out["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
		// kubectl's copy of the whole object, which includes the values of a Secret.
		if notes, ok := meta["annotations"].(map[string]any); ok {
			delete(notes, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	if o.Resource == "secrets" {
		for _, field := range []string{"data", "stringData"} {
			values, _ := out[field].(map[string]any)
			for k, v := range values {
				text, _ := v.(string)
				values[k] = fmt.Sprintf("(%d characters)", len(text))
			}
		}
	}
	return out
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			if inner != nil {
				out[strings.ToValidUTF8(k, "\uFFFD")] = withoutNulls(inner)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = withoutNulls(inner)
		}
		return out
	}
	return v
}
