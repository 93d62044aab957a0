package simtest

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// contents is what a step did to objects, for a record that people will read. It is
// asked for once a failure is as small as it gets: a search has no use for it.
func (w *World) contents(changes []change) (all []history.Change) {
	for _, c := range changes {
		resource, ok := w.server.worlds.ResourceOf(c.key)
		if !ok {
			continue // bookkeeping of the server that is no object
		}
		before, after := w.content(c.was), w.content(c.is)
		whose := history.Object{Resource: resource.String()}
		for _, object := range []map[string]any{after, before} {
			if meta, ok := object["metadata"].(map[string]any); ok {
				whose.Namespace, _ = meta["namespace"].(string)
				whose.Name, _ = meta["name"].(string)
				whose.UID, _ = meta["uid"].(string)
				break
			}
		}
		if whose.Name == "" {
			whose.Name = c.key[strings.LastIndexByte(c.key, '/')+1:]
		}
		// What the world began with is told where it is first changed.
		first := c.was != nil && c.was.revision <= revision
		change, err := history.ChangeOf(whose, c.revision, before, after, first)
		if err != nil {
			continue // an object that is no JSON: the step tells of it without its contents
		}
		all = append(all, change)
	}
	return all
}

func (w *World) content(e *entry) map[string]any {
	if e == nil {
		return nil
	}
	if o := w.truth.decode(e); o != nil {
		return o.Object
	}
	return nil
}
