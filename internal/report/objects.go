package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// archive holds the states of every object, as far as the record contains them.
type archive map[objectKey][]version

type objectKey struct{ resource, namespace, name string }

func keyOf(o history.Object) objectKey { return objectKey{o.Resource, o.Namespace, o.Name} }

// version is one state of an object. object is nil if the object does not exist.
type version struct {
	revision int64
	object   map[string]any
}

func newArchive(run *history.Run) archive {
	a := archive{}
	for i := range run.Steps {
		for c := range run.Steps[i].Changes {
			change := &run.Steps[i].Changes[c]
			key := keyOf(change.Object)
			states := a[key]
			var last map[string]any
			if len(states) > 0 {
				last = states[len(states)-1].object
			} else {
				states = []version{{object: change.Before()}}
			}
			now, err := change.Apply(last)
			if err != nil {
				continue // the record was edited
			}
			a[key] = append(states, version{change.Revision, now})
		}
	}
	return a
}

// at returns the state at a revision. ok is false if the record does not contain it.
func (a archive) at(key objectKey, revision int64, missed []int64) (found version, ok bool) {
	for _, v := range a[key] {
		if v.revision <= revision && !slices.Contains(missed, v.revision) {
			found, ok = v, true
		}
	}
	return found, ok
}

// cached returns the state of an object in the caches of an actor.
func (a archive) cached(p *replay, actor string, key objectKey) (found version, ok bool) {
	if len(a) == 0 {
		return found, false
	}
	for _, v := range p.viewsOf(actor) {
		if v.resource != key.resource || v.namespace != "" && v.namespace != key.namespace || v.reached == 0 {
			continue
		}
		if s, has := a.at(key, v.reached, v.missed); has && (!ok || s.revision > found.revision) {
			found, ok = s, true
		}
	}
	return found, ok
}

// writeDiffs returns the differences that a write made, and, for a controller, those between its cache and
// the API before the write.
func (a archive) writeDiffs(p *replay, s *history.Step, controller bool) (diffs []Diff) {
	for i := range s.Changes {
		key := keyOf(s.Changes[i].Object)
		revision := s.Changes[i].Revision
		before, _ := a.at(key, revision-1, nil)
		after, _ := a.at(key, revision, nil)
		after.revision = revision // a deletion has a revision, too
		diffs = append(diffs, differ(DiffTruth, s.Changes[i].Object, before, after))
		if cachedState, ok := a.cached(p, s.Actor, key); controller && ok && cachedState.revision < before.revision {
			diffs = append(diffs, differ(DiffGap, s.Changes[i].Object, cachedState, before))
		}
	}
	return diffs
}

// cachedBefore returns the state of the object in the actor's caches before an event.
func (a archive) cachedBefore(p *replay, s *history.Step) version {
	v, _ := a.cached(p, s.Actor, keyOf(s.Object))
	return v
}

// eventDiffs returns the difference that an event made to the actor's cache, and the remaining difference
// between that cache and the API.
func (a archive) eventDiffs(s *history.Step, before version) (diffs []Diff) {
	if s.Kind != history.Frame || s.Type == "BOOKMARK" || s.Revision == 0 {
		return nil
	}
	key := keyOf(s.Object)
	delivered, ok := a.at(key, s.Revision, nil)
	if !ok {
		return nil
	}
	now := delivered
	if delivery(s) != lost {
		diffs = append(diffs, differ(DiffCache, s.Object, before, delivered))
	} else {
		now = before
	}
	if truth, ok := a.at(key, s.Truth, nil); ok && truth.revision > now.revision {
		diffs = append(diffs, differ(DiffGap, s.Object, now, truth))
	}
	return diffs
}

// maxFields limits the fields of a difference.
const maxFields = 150

func differ(of string, o history.Object, from, to version) Diff {
	d := Diff{Of: of, Object: o, From: from.revision, To: to.revision}
	was, is := map[string]string{}, map[string]string{}
	flatten("", from.object, was)
	flatten("", to.object, is)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		old, had := was[path]
		now, has := is[path]
		if had == has && old == now || path == "metadata.resourceVersion" {
			continue
		}
		if len(d.Fields) == maxFields {
			d.More++
			continue
		}
		f := Field{Op: "~", Path: path, Was: old, Is: now}
		switch {
		case !had:
			f.Op = "+"
		case !has:
			f.Op = "-"
		}
		d.Fields = append(d.Fields, f)
	}
	return d
}

// flatten adds each value of an object to a map, by its path, such as spec.containers[0].image.
func flatten(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 && path != "" {
			into[path] = "{}"
		}
		for k, inner := range v {
			switch {
			case strings.ContainsAny(k, "./[]\" "):
				k = "[" + strconv.Quote(k) + "]"
			case path != "":
				k = "." + k
			}
			flatten(path+k, inner, into)
		}
	case []any:
		if len(v) == 0 {
			into[path] = "[]"
		}
		for i, inner := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), inner, into)
		}
	case string:
		into[clipped(path)] = clipped(v)
	default:
		text, _ := json.Marshal(v)
		into[clipped(path)] = clipped(string(text))
	}
}

// longest is the length at which texts are cut: a page is for people.
const longest = 300

// clipped limits the length of a text and replaces control characters.
func clipped(text string) string {
	if len(text) > 4*longest { // before any code reads each byte
		text = strings.ToValidUTF8(text[:4*longest], "")
	}
	text = Clean(text)
	if r := []rune(text); len(r) > longest {
		return string(r[:longest-1]) + "…"
	}
	return text
}
