package verdict

import (
	"maps"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// Contents describes what writes did to objects, for a record that people read. The search does not
// need it, so it is called only when a shrunk failure is run again.
func (o *Objects) Contents(changes []Change) (all []history.Change) {
	for _, c := range changes {
		if _, ok := o.o.Resources.ResourceOf(c.Key); !ok {
			continue // bookkeeping of the server, not an object
		}
		if o.o.Ignored != nil && o.o.Ignored(c.Key) {
			continue
		}
		before, after := o.BeforeAndAfter(c)
		name := o.ObjectOf(c)
		if o.o.Private {
			before, after = history.Conceal(name, before), history.Conceal(name, after)
		}
		// The first change of an object that existed before the run also records its initial state.
		first := c.before != nil && c.before.revision <= o.start
		change, err := history.ChangeOf(name, c.Revision, before, after, first)
		if err != nil {
			continue // the object cannot be written as JSON: the step has no contents
		}
		all = append(all, change)
	}
	return all
}

// BeforeAndAfter returns the object before and after a write; nil if it did not exist. Callers must not
// change the maps.
func (o *Objects) BeforeAndAfter(c Change) (before, after map[string]any) {
	return o.content(c.before), o.content(c.after)
}

func (o *Objects) content(e *entry) map[string]any {
	if e == nil {
		return nil
	}
	if u := o.decode(e); u != nil {
		return u.Object
	}
	return nil
}

// Each calls do for each object, in the order of their keys. do must not change the map.
func (o *Objects) Each(do func(name history.Object, content map[string]any)) {
	for _, key := range slices.Sorted(maps.Keys(o.entries)) {
		if _, ok := o.o.Resources.ResourceOf(key); !ok {
			continue
		}
		c := Change{Key: key, after: o.entries[key]}
		if content := o.content(c.after); content != nil {
			do(o.ObjectOf(c), content)
		}
	}
}

// ObjectOf returns the name of the written object.
func (o *Objects) ObjectOf(c Change) history.Object {
	resource, _ := o.o.Resources.ResourceOf(c.Key)
	object := history.Object{Resource: resource.String()}
	for _, content := range []map[string]any{o.content(c.after), o.content(c.before)} {
		if meta, ok := content["metadata"].(map[string]any); ok {
			object.Namespace, _ = meta["namespace"].(string)
			object.Name, _ = meta["name"].(string)
			object.UID, _ = meta["uid"].(string)
			break
		}
	}
	if object.Name == "" {
		object.Name = c.Key[strings.LastIndexByte(c.Key, '/')+1:]
	}
	return object
}
