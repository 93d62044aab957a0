package stage

import (
	"reflect"

	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// Resume is the position in an unfinished stage.
type Resume struct {
	// Stage is empty for none; Step is the operation to continue with.
	Stage string
	Step  int
	// Begun is the object of the decision, and Done the same object after the operations that succeeded. The
	// difference is what the stage wrote.
	Begun, Done Object

	digest uint64 // of the unfinished stage
}

// Stopped returns the position at which a stage continues after the operations before step succeeded and the others
// failed. after is the newest object that the API returned; nil if it returned none.
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

// resume continues an interrupted stage if it is unchanged and would still be chosen: the selector is evaluated on
// the newest object without the fields that the stage itself wrote. So a stage continues even if its first writes
// changed the result of its selector, and does not continue if another writer has changed the state of the object
// or requested its deletion.
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

// without returns an object, as JSON values, without what the stage wrote: every field that still has the value
// that the stage wrote gets its previous value.
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
	for key, was := range b { // removed by the stage, and not added again by another writer
		_, left := a[key]
		if _, there := n[key]; !left && !there {
			out[key] = was
		}
	}
	return out
}
