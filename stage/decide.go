package stage

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is a kind of object the stages of this package can be for.
type Kind string

// The kinds.
const (
	KindNode Kind = "Node"
	KindPod  Kind = "Pod"
)

// Object is a *corev1.Pod or a *corev1.Node; any other type matches no stage.
// Decide and Play never change it.
type Object = metav1.Object

// KindOf is the kind of an object, or "".
func KindOf(o Object) Kind {
	switch o.(type) {
	case *corev1.Pod:
		return KindPod
	case *corev1.Node:
		return KindNode
	}
	return ""
}

// MinRepeat is the least time between two runs of one stage on one object with
// no other stage in between. Without it a stage that matches its own result and
// has no delay would write as fast as the API answers.
const MinRepeat = time.Second

// Past is what must be remembered of an object between two decisions. The zero
// value is an object nothing is known of.
type Past struct {
	// Stage was chosen by the last decision; empty for none.
	Stage string
	// Since is when Stage became the chosen one. An update that leaves it the
	// chosen one does not move it.
	Since time.Time
	// Played counts the stages played on this object; it makes the draws of a
	// stage that comes again differ.
	Played uint64
	// Last is the stage played last, and LastAt when.
	Last   string
	LastAt time.Time
	// Idle is the resourceVersion at which Last had nothing to change.
	Idle string
}

// Scene is what the choice of a stage may depend on outside the object.
type Scene struct {
	// NodeReady is whether the node of a pod is Ready. Stages annotated with
	// NodeReadyAnnotation are chosen only then.
	NodeReady bool
}

// NodeReadyAnnotation on a Stage, with the value "true", keeps it from being
// chosen for a pod whose node is not Ready.
const NodeReadyAnnotation = "rehearse-k8s.github.io/node-ready"

// Code says in one word why a decision is what it is.
type Code uint8

// The codes of a Reason.
const (
	// NoStage: no stage matches; only a change of the object changes that.
	NoStage Code = iota
	// OnlyStage: exactly one stage matches.
	OnlyStage
	// DrawnStage: several match and this one was drawn by weight.
	DrawnStage
	// NothingToDo: the chosen stage was played on this very version of the
	// object and had nothing to change; only a change of the object helps.
	NothingToDo
)

// Reason is why a decision is what it is.
type Reason struct {
	Code Code
	// Matching is how many stages match.
	Matching int
	// Repeats is true when the stage was also the last one played.
	Repeats bool
}

// Decision is which stage is next for one version of one object, and when. The
// zero Decision chooses nothing.
type Decision struct {
	// Stage is the name of the chosen stage; empty for none.
	Stage string
	// Since is when Stage became the chosen one; Due is when it is to be played.
	Since, Due time.Time
	Reason     Reason

	// UID and ResourceVersion are the object's that was decided on.
	UID             types.UID
	ResourceVersion string

	chosen *compiled
	played uint64
}

// Chosen reports whether there is a stage to play, now or later.
func (d *Decision) Chosen() bool { return d.chosen != nil }

// String is the decision in one line, for logs and golden files.
func (d *Decision) String() string {
	switch d.Reason.Code {
	case NothingToDo:
		return "nothing: " + d.Stage + " was played on this version and changes nothing"
	case NoStage:
		return "nothing: no stage matches"
	}
	why := "the only stage that matches"
	if d.Reason.Code == DrawnStage {
		why = fmt.Sprintf("drawn among %d that match", d.Reason.Matching)
	}
	if d.Reason.Repeats {
		why += ", again"
	}
	return fmt.Sprintf("%s after %s: %s", d.Stage, d.Due.Sub(d.Since), why)
}

// Decide says which stage is next for the newest version of an object, and when
// it is due. It does not say whether it is due yet: compare Due with the clock.
// Deciding again on a newer version keeps Since and so the due time as long as
// the same stage stays chosen.
//
// Rules (KWOK's, except where said): all stages whose selector holds take part;
// with one, its weight does not matter; with several, each is drawn in
// proportion to its weight, and evenly when all weights are 0. The draw is keyed
// by (seed, UID, stage, number of stages played), so it is the same each time
// it is made.
func (s *Set) Decide(now time.Time, seed uint64, o Object, past Past, scene Scene) Decision {
	v := view{object: o, now: now}
	uid := o.GetUID()
	d := Decision{UID: uid, ResourceVersion: o.GetResourceVersion(), played: past.Played}

	chosen, matching := s.choose(&v, seed, uid, past.Played, scene)
	d.Reason.Matching = matching
	if chosen == nil {
		return d
	}
	d.Stage = chosen.name
	d.Reason.Repeats = past.Last == chosen.name
	if d.Reason.Repeats && past.Idle != "" && past.Idle == d.ResourceVersion {
		d.Reason.Code = NothingToDo
		return d
	}
	d.chosen = chosen
	d.Reason.Code = OnlyStage
	if matching > 1 {
		d.Reason.Code = DrawnStage
	}
	d.Since = now
	if past.Stage == chosen.name {
		d.Since = past.Since
	}
	v.now = d.Since
	wait := chosen.delay.after(&v, d.Since, seed, uid, chosen.name, past.Played)
	d.Due = d.Since.Add(wait)
	if earliest := past.LastAt.Add(MinRepeat); d.Reason.Repeats && d.Due.Before(earliest) {
		d.Due = earliest
	}
	return d
}

// choose returns the stage that wins among those that match, and how many do.
func (s *Set) choose(v *view, seed uint64, uid types.UID, played uint64, scene Scene) (*compiled, int) {
	stages := s.stages(KindOf(v.object))
	var first, best *compiled
	var bestScore float64
	matching, weighed := 0, false
	for _, c := range stages {
		if !c.matches(v, scene) {
			continue
		}
		matching++
		if matching == 1 {
			first = c
			continue
		}
		if matching == 2 {
			best, bestScore, weighed = first, first.score(seed, uid, played), first.weight > 0
		}
		// Stages with a weight beat those without; those without are even
		// among themselves.
		switch at := c.score(seed, uid, played); {
		case c.weight > 0 && !weighed:
			best, bestScore, weighed = c, at, true
		case c.weight > 0 == weighed && at < bestScore:
			best, bestScore = c, at
		}
	}
	if matching == 1 {
		return first, 1
	}
	return best, matching
}

func (c *compiled) score(seed uint64, uid types.UID, played uint64) float64 {
	return score(draw(seed, uid, c.name, played, drawChoice), max(c.weight, 1))
}

func (c *compiled) matches(v *view, scene Scene) bool {
	if c.needsNodeReady && !scene.NodeReady {
		return false
	}
	for i := range c.requirements {
		if !c.requirements[i].holds(v) {
			return false
		}
	}
	return true
}

// Explanation says for one stage whether it matches an object.
type Explanation struct {
	Stage   string
	Matches bool
	// Because is the first requirement that does not hold; empty when all do.
	Because string
}

// Explain says for every stage of the object's kind, by name, whether it
// matches and, if not, the first requirement that does not hold.
func (s *Set) Explain(o Object, scene Scene) []Explanation {
	v := view{object: o}
	var out []Explanation
	for _, c := range s.stages(KindOf(o)) {
		e := Explanation{Stage: c.name, Matches: true}
		if c.needsNodeReady && !scene.NodeReady {
			e.Matches, e.Because = false, "the pod's node is not Ready"
		}
		for i := 0; e.Matches && i < len(c.requirements); i++ {
			if !c.requirements[i].holds(&v) {
				e.Matches, e.Because = false, c.requirements[i].text
			}
		}
		out = append(out, e)
	}
	return out
}
