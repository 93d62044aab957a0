package truth

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// Contents are what writes did to objects, for a record that people will read. It is
// asked for once a failure is as small as it gets: a search has no use for it.
func (t *Truth) Contents(changes []Change) (all []history.Change) {
	for _, c := range changes {
		if _, ok := t.o.Source.ResourceOf(c.Key); !ok {
			continue // bookkeeping of the server that is no object
		}
		if t.o.Apart != nil && t.o.Apart(c.Key) {
			continue
		}
		before, after := t.content(c.was), t.content(c.is)
		whose := t.ObjectOf(c)
		if t.o.Private {
			before, after = history.Conceal(whose, before), history.Conceal(whose, after)
		}
		// What the world began with is told where it is first changed.
		first := c.was != nil && c.was.revision <= t.base
		change, err := history.ChangeOf(whose, c.Revision, before, after, first)
		if err != nil {
			continue // an object that is no JSON: the step tells of it without its contents
		}
		all = append(all, change)
	}
	return all
}

// States are the object of a write before and after it, not to be changed; nil: there was, or is, none.
func (t *Truth) States(c Change) (was, is map[string]any) { return t.content(c.was), t.content(c.is) }

func (t *Truth) content(e *entry) map[string]any {
	if e == nil {
		return nil
	}
	if o := t.decode(e); o != nil {
		return o.Object
	}
	return nil
}

// ObjectOf is the object that a write was about.
func (t *Truth) ObjectOf(c Change) history.Object {
	resource, _ := t.o.Source.ResourceOf(c.Key)
	whose := history.Object{Resource: resource.String()}
	for _, object := range []map[string]any{t.content(c.is), t.content(c.was)} {
		if meta, ok := object["metadata"].(map[string]any); ok {
			whose.Namespace, _ = meta["namespace"].(string)
			whose.Name, _ = meta["name"].(string)
			whose.UID, _ = meta["uid"].(string)
			break
		}
	}
	if whose.Name == "" {
		whose.Name = c.Key[strings.LastIndexByte(c.Key, '/')+1:]
	}
	return whose
}
