package stage

import "reflect"

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

// resume goes on with a stage that was begun, if it is still there as it was and would
// still be begun: its selector is asked about the newest object without what the stage wrote
// itself. So a stage goes on although its first half has made its selector fail, and
// does not go on when somebody else has moved the object on or has asked to delete it.
func (d *Decision) resume(stages []*compiled, v *view, past Past) bool {
	r := &past.Resume
	for _, c := range stages {
		if c.name != r.Stage || r.Step >= len(c.operations) || r.digest != 0 && r.digest != c.digest {
			continue
		}
		if r.Begun != nil {
			object := v.object
			if object.GetDeletionTimestamp() != nil && r.Begun.GetDeletionTimestamp() == nil {
				return false
			}
			base, err := objectOf(r.without(jsonOf(object)), c.kind)
			if err != nil {
				return false
			}
			d.base = base
			before := view{object: base, now: v.now, seed: v.seed, uid: v.uid, played: v.played}
			if !c.matches(&before, Scene{NodeReady: true}) {
				d.base = nil
				return false
			}
		}
		d.Stage, d.chosen, d.step = c.name, c, max(r.Step, 0)
		d.Reason = Reason{Code: Resumed}
		d.Since = v.now
		if past.Stage == c.name {
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
	before, after := jsonOf(r.Begun), jsonOf(r.Done)
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
	for key, was := range b { // what the stage took away and nobody has put back
		_, left := a[key]
		if _, there := n[key]; !left && !there {
			out[key] = was
		}
	}
	return out
}
