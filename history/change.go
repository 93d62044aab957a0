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

// Change is what a step did to one object. Records have changes when whoever made
// them asked for it: most runs of a search are judged and forgotten, and only the one
// that is kept for people needs the contents of objects. They are no part of the
// hash, which has the digests.
type Change struct {
	Object
	Revision int64 `json:"rev"`
	// Was is the object as it was before; only where no earlier change of the run
	// says it: the object was there from the start.
	Was json.RawMessage `json:"was,omitempty"`
	// Patch is a JSON merge patch (RFC 7386) from what was to what is. Gone says that
	// nothing is any more.
	Patch json.RawMessage `json:"patch,omitempty"`
	Gone  bool            `json:"gone,omitempty"`
}

// ChangeOf compares an object before and after a write; nil: it did not exist. What
// says nothing about a controller is left out: managedFields, nulls, and the values
// of Secrets, which have no place in a file that is passed around. With first, what
// was before is written down too.
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
	if c.Patch, err = marshal(mergePatch(was, is)); err != nil {
		return c, fmt.Errorf("history: %s: %w", o, err)
	}
	return c, nil
}

// Apply is the object after the change; nil when there is none. before is what the
// changes up to this one have left, and is not altered.
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
	return merged(before, patch), nil
}

// Before is what a change says about the object before it; nil when it says nothing.
func (c *Change) Before() map[string]any {
	var was map[string]any
	if c.Was == nil || unmarshal(c.Was, &was) != nil {
		return nil
	}
	return was
}

// check refuses what no writer of ours writes.
func (c *Change) check() error {
	if c.Gone != (c.Patch == nil) {
		return errors.New("a change has a patch or is gone, one of the two")
	}
	for _, raw := range []*json.RawMessage{&c.Was, &c.Patch} {
		if *raw == nil {
			continue
		}
		var b bytes.Buffer
		if err := json.Compact(&b, *raw); err != nil || b.Bytes()[0] != '{' {
			return errors.New("was and patch are JSON objects")
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

// unmarshal keeps numbers as they are written: a large revision is no float.
func unmarshal(raw json.RawMessage, into *map[string]any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return dec.Decode(into)
}

// mergePatch is RFC 7386's patch that makes is of was.
func mergePatch(was, is map[string]any) map[string]any {
	patch := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(is)) {
		old, had := was[k]
		oldMap, a := old.(map[string]any)
		newMap, b := is[k].(map[string]any)
		switch {
		case had && a && b:
			if p := mergePatch(oldMap, newMap); len(p) > 0 {
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

// merged applies a patch and shares with before what it leaves alone.
func merged(before, patch map[string]any) map[string]any {
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
			out[k] = merged(old, p)
		default:
			out[k] = v
		}
	}
	return out
}

// presentable copies an object without what the record leaves out.
func presentable(o Object, object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	out, _ := withoutNulls(object).(map[string]any)
	if meta, ok := out["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
		// kubectl's copy of the whole object says everything twice, Secrets included.
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
