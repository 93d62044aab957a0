package stage

import (
	"reflect"

	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// Resume is a place in a stage that was begun and not finished.
type Resume struct {
	// Stage is empty for none; Step is the operation to go on with.
	Stage string
	Step  int
	// Begun is the object the stage was decided on, and Done the same object after
	// the operations that were carried out. What differs is what the stage wrote.
	Begun, Done Object

	digest uint64 // of the stage that was begun
}

// Stopped is where the stage of a decision on an object goes on when it was carried
// out up to a step and the rest failed. after is the newest answer of the API about
// the object; nil if there was none.
func (d *Decision) Stopped(step int, on, after Object) Resume {
	r := Resume{Stage: d.Stage, Step: step, Begun: on, Done: after, digest: d.chosen.digest}
	if d.base != nil {
		r.Begun = d.base
	}
	if r.Done == nil {
		r.Done = on
	}
	return r
}

// resume continues an interrupted stage, if it is unchanged and would still be chosen: its selector is evaluated
// on the newest object without what the stage itself wrote. So a stage continues although its first half made its
// selector fail, and does not continue if another writer has moved the object on or requested its deletion.
func (d *Decision) resume(stages []*Compiled, v *expr.View, past Past) bool {
	r := &past.Resume
	for _, c := range stages {
		if c.Name != r.Stage || r.Step >= len(c.Operations) || r.digest != 0 && r.digest != c.digest {
			continue
		}
		if r.Begun != nil {
			object := v.Object
			if object.GetDeletionTimestamp() != nil && r.Begun.GetDeletionTimestamp() == nil {
				return false
			}
			base, err := ObjectOf(r.without(ValuesOf(object)), c.Kind)
			if err != nil {
				return false
			}
			d.base = base
			before := expr.View{Object: base, Now: v.Now, Seed: v.Seed, UID: v.UID, Played: v.Played}
			if !c.matches(&before, Scene{NodeReady: true}) {
				d.base = nil
				return false
			}
		}
		d.Stage, d.chosen, d.step = c.Name, c, max(r.Step, 0)
		d.Reason = Reason{Code: Resumed}
		d.Since = v.Now
		if past.Stage == c.Name {
			d.Since = past.Since
		}
		d.Due = d.Since
		return true
	}
	return false
}

// without is an object, as JSON values, less what the stage wrote: every field that
// still is as the stage left it becomes what it was before.
func (r *Resume) without(now map[string]any) map[string]any {
	before, after := ValuesOf(r.Begun), ValuesOf(r.Done)
	out, _ := undone(now, before, after).(map[string]any)
	return out
}

func undone(now, before, after any) any {
	if reflect.DeepEqual(now, after) {
		return before
	}
	n, isMap := now.(map[string]any)
	a, _ := after.(map[string]any)
	b, _ := before.(map[string]any)
	if !isMap || a == nil {
		return now
	}
	out := make(map[string]any, len(n))
	for key, value := range n {
		value = undone(value, b[key], a[key])
		if _, was := b[key]; value == nil && !was {
			continue
		}
		out[key] = value
	}
	for key, was := range b { // what the stage removed and no other writer has restored
		_, left := a[key]
		if _, there := n[key]; !left && !there {
			out[key] = was
		}
	}
	return out
}
