package stage

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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
	// Resume is a stage that was begun and not finished: it goes on before
	// anything else is chosen, whatever its selector says by now.
	Resume Resume
}

// Resume is a place in a stage.
type Resume struct {
	// Stage is empty for none; Step is the operation to go on with.
	Stage string
	Step  int
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

// TimerAnnotation on a Stage, with the value "true", takes it out of the draw by
// weight: of it and of the stage that was drawn, the one that is due first is
// played. So something that is to happen at a given time (a deadline, the end of
// a back-off) neither keeps anything else from happening nor is kept from it.
// Its delay should come to a time that stands in the object: one that counts from
// now begins anew whenever another stage was played.
const TimerAnnotation = "rehearse-k8s.github.io/timer"

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
	// Resumed: the stage was begun before and goes on.
	Resumed
	// Held: the delay of the chosen stage cannot be read from the object and the
	// stage says no other; Problem has the reason. Only a change of the object
	// helps.
	Held
	// TimerStage: it is a timer and due before what was drawn.
	TimerStage
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
	// Problem says what about the chosen stage could not be read from the object:
	// its delay fell back to the fixed one, or the stage is Held.
	Problem string

	// UID and ResourceVersion are the object's that was decided on.
	UID             types.UID
	ResourceVersion string

	chosen *compiled
	seed   uint64
	played uint64
	step   int // operation to begin with
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
	case Held:
		return "nothing: " + d.Stage + " is held: " + d.Problem
	case Resumed:
		return d.Stage + " goes on"
	}
	why := "the only stage that matches"
	if d.Reason.Code == TimerStage {
		why = "a timer, due first"
	}
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
// proportion to its weight, and evenly when all weights are 0. Timers
// (TimerAnnotation) stand beside that. The draw is keyed
// by (seed, UID, stage, number of stages played), so it is the same each time
// it is made.
func (s *Set) Decide(now time.Time, seed uint64, o Object, past Past, scene Scene) Decision {
	uid, version := identity(o)
	v := view{object: o, now: now, seed: seed, uid: uid, played: past.Played}
	d := Decision{UID: uid, ResourceVersion: version, seed: seed, played: past.Played}
	stages := s.stages(KindOf(o))
	if past.Resume.Stage != "" && d.resume(stages, now, past) {
		return d
	}
	chosen, matching := choose(stages, &v, scene)
	d.Reason.Matching = matching
	if chosen != nil {
		code := OnlyStage
		if matching > 1 {
			code = DrawnStage
		}
		d.choose(chosen, &v, now, past, code)
	}
	for _, c := range stages {
		if !c.timer || !c.matches(&v, scene) {
			continue
		}
		t := Decision{UID: uid, ResourceVersion: version, Reason: Reason{Matching: matching + 1}, seed: seed, played: past.Played}
		t.choose(c, &v, now, past, TimerStage)
		if t.Chosen() && (!d.Chosen() || t.Due.Before(d.Due)) {
			d = t
		}
	}
	return d
}

// choose makes a stage the chosen one, unless it rests or is held.
func (d *Decision) choose(c *compiled, v *view, now time.Time, past Past, code Code) {
	d.Stage = c.name
	d.Reason.Repeats = past.Last == c.name
	if d.Reason.Repeats && d.idle(past) {
		d.Reason.Code = NothingToDo
		return
	}
	d.Reason.Code = code
	d.Since = now
	if past.Stage == c.name {
		d.Since = past.Since
	}
	v.now = d.Since
	wait, held, trouble := c.delay.after(v, d.Since, c.name)
	v.now = now
	d.Problem = trouble
	if held {
		d.Reason.Code = Held
		return
	}
	d.chosen = c
	d.Due = d.dueAfter(wait, past)
}

// idle: the last stage changed nothing of this version.
func (d *Decision) idle(past Past) bool { return past.Idle != "" && past.Idle == d.ResourceVersion }

// dueAfter is when a chosen stage with a delay is played.
func (d *Decision) dueAfter(wait time.Duration, past Past) time.Time {
	due := d.Since.Add(wait)
	// Two stages that change nothing must not take turns without end either.
	if earliest := past.LastAt.Add(MinRepeat); (d.Reason.Repeats || d.idle(past)) && due.Before(earliest) {
		return earliest
	}
	return due
}

// resume goes on with a stage that was begun, if it is still there.
func (d *Decision) resume(stages []*compiled, now time.Time, past Past) bool {
	for _, c := range stages {
		if c.name != past.Resume.Stage || past.Resume.Step >= len(c.operations) {
			continue
		}
		d.Stage, d.chosen, d.step = c.name, c, max(past.Resume.Step, 0)
		d.Reason = Reason{Code: Resumed}
		d.Since = now
		if past.Stage == c.name {
			d.Since = past.Since
		}
		d.Due = d.Since
		return true
	}
	return false
}

// choose returns the stage that wins among those that match, and how many do.
// Weights are looked at only where there is a choice.
func choose(stages []*compiled, v *view, scene Scene) (*compiled, int) {
	var first, best *compiled
	var bestScore float64
	var bestRank rank
	matching := 0
	race := func(c *compiled) {
		weight, rank := c.weigh(v)
		at := score(draw(v.seed, v.uid, c.name, v.played, drawChoice), weight)
		if best == nil || rank < bestRank || rank == bestRank && at < bestScore {
			best, bestScore, bestRank = c, at, rank
		}
	}
	for _, c := range stages {
		if c.timer || !c.matches(v, scene) {
			continue
		}
		if matching++; matching == 1 {
			first = c
			continue
		}
		if matching == 2 {
			race(first)
		}
		race(c)
	}
	if matching == 1 {
		return first, 1
	}
	return best, matching
}

func (c *compiled) matches(v *view, scene Scene) bool {
	if c.needsNodeReady && !scene.NodeReady {
		return false
	}
	for i := range c.requirements {
		if !c.requirements[i].holds(v, c.name) {
			return false
		}
	}
	return true
}
