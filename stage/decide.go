package stage

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/render"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"k8s.io/apimachinery/pkg/types"
)

// MinRepeat is the shortest time between two runs of one stage on one object with no other stage in between.
// Without it, a stage that matches its own result and has no delay would write as fast as the API answers.
const MinRepeat = time.Second

// WriteBurst is how many stages may write one object without a pause; after that, one more may write every
// WriteEvery. Without this budget, two stages without a delay that undo each other would write as fast as the API
// answers. A stage with several requests counts once.
const (
	WriteBurst = 30
	WriteEvery = time.Second
)

// Past is what the caller remembers of an object between two decisions. The zero value is an unknown object.
// Decided and After update it.
type Past struct {
	// Stage was chosen by the last decision; empty for none.
	Stage string
	// Since is when Stage became the chosen one. An update that leaves it the
	// chosen one does not move it.
	Since time.Time
	// Played counts the stages played on this object and those given up; it makes
	// the draws of a stage that comes again differ.
	Played uint64
	// Last is the stage played last, and LastAt when.
	Last   string
	LastAt time.Time
	// Idle are the stages that have nothing to change at the resourceVersion
	// IdleAt. The slice is shared and must not be changed.
	IdleAt string
	Idle   []string
	// Paid is the time up to which writes have used the object's budget: each takes
	// WriteEvery.
	Paid time.Time
	// Resume is a stage that was begun and not finished: it goes on before
	// anything else is chosen.
	Resume Resume
}

// Decided records a decision that was made with p.
func (p *Past) Decided(d *Decision) {
	p.Stage, p.Since = "", time.Time{}
	if d.Chosen() {
		p.Stage, p.Since = d.Stage, d.Since
	}
	if d.Reason.Code != Resumed {
		p.Resume = Resume{}
	}
	p.IdleAt, p.Idle = d.ResourceVersion, d.idle
}

// After returns the Past once the stage of a decision was played. wrote is false if it had nothing to change.
func (p Past) After(d *Decision, at time.Time, wrote bool) Past {
	next := Past{Played: p.Played + 1, Last: d.Stage, LastAt: at, Paid: p.Paid}
	if !wrote {
		next.IdleAt, next.Idle = d.ResourceVersion, append(slices.Clip(d.idle), d.Stage)
		return next
	}
	if next.Paid.Before(at) {
		next.Paid = at
	}
	next.Paid = next.Paid.Add(WriteEvery)
	return next
}

// GivenUp returns the Past after the API rejected a stage repeatedly: the rest of that stage is not played, and
// the next stage is drawn again.
func (p Past) GivenUp() Past {
	p.Resume = Resume{}
	p.Played++
	return p
}

// idle reports whether a stage is known to change nothing at a version.
func (p *Past) idle(stage, version string) bool {
	return p.IdleAt != "" && p.IdleAt == version && slices.Contains(p.Idle, stage)
}

// Scene is what the choice of a stage depends on outside the object.
type Scene struct {
	// NodeReady is whether the node of a pod is Ready. Stages annotated with
	// NodeReadyAnnotation are chosen only then.
	NodeReady bool
}

// NodeReadyAnnotation on a Stage, with the value "true", prevents that it is chosen for a pod whose node is not
// Ready.
const NodeReadyAnnotation = "rehearse-k8s.github.io/node-ready"

// TimerAnnotation on a Stage, with the value "true", excludes it from the draw by weight: of the timer and the
// stage that was drawn, the one that is due first is played. So what is due at a given time (a deadline, the end
// of a back-off) neither blocks other stages nor is blocked by them. The delay should lead to a time that the
// object holds: a delay that counts from now restarts after each other stage.
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
	// NothingToDo: what matches would change nothing of this very version of the
	// object; only a change of the object helps.
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
	// LeftOut are stages that match and take no part in the draw.
	LeftOut []LeftOut
	// Overran are the stages an expression of which does too much on this object; none
	// of them is chosen for a selector that does.
	Overran []Overrun
	// Slowed is true when the stage waits because the object's budget of writes is
	// spent: WriteBurst stages wrote without a pause.
	Slowed bool

	// UID and ResourceVersion are the object's that was decided on.
	UID             types.UID
	ResourceVersion string

	chosen *Compiled
	seed   uint64
	played uint64
	step   int      // operation to begin with
	idle   []string // known to have nothing to change
	base   Object   // of a stage that goes on: the object without what it wrote
}

// LeftOut is a stage that matches and must not be drawn: it would change nothing (NothingToDo), or its delay
// cannot be read (Held), as Problem explains.
type LeftOut struct {
	Stage   string
	Code    Code
	Problem string
}

// Overrun is a stage that exceeds its budget, and what in it does.
type Overrun struct {
	Stage, Problem string
}

// took records that an expression of a stage exceeded its budget since the last call.
func (d *Decision) took(stage string, v *expr.View) {
	if v.Exceeded != nil {
		d.Overran = append(d.Overran, Overrun{Stage: stage, Problem: v.Exceeded.Error()})
		v.Exceeded = nil
	}
}

// String is why, in one line.
func (l LeftOut) String() string {
	if l.Code == Held {
		return l.Stage + " is held: " + l.Problem
	}
	return l.Stage + " would change nothing"
}

// Chosen reports whether there is a stage to play, now or later.
func (d *Decision) Chosen() bool { return d.chosen != nil }

// String is the decision in one line, for logs and golden files.
func (d *Decision) String() string {
	switch d.Reason.Code {
	case NothingToDo:
		return "nothing: " + d.Stage + " would change nothing of this version"
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
	for _, l := range d.LeftOut {
		why += "; left out: " + l.String()
	}
	return fmt.Sprintf("%s after %s: %s", d.Stage, d.Due.Sub(d.Since), why)
}

// Decide returns which stage is next for the newest version of an object, and when it is due. It does not say
// whether it is due yet: compare Due with the clock. Deciding again on a newer version keeps Since, and so the due
// time, as long as the same stage stays chosen.
//
// The rules are KWOK's, except where this says otherwise. All stages whose selector matches take part. One stage
// alone is chosen whatever its weight. Of several, each is drawn in proportion to its weight, and evenly if all
// weights are 0. Stages that would change nothing and stages whose delay cannot be read are left out of the draw
// (KWOK draws them too, and the object then waits for nothing). Timers (TimerAnnotation) take no part in the draw.
// The draw is keyed by (seed, UID, stage, number of stages played), so it is the same each time.
//
// A stage that was interrupted resumes (Past.Resume) as long as its selector matches the object without what the
// stage itself wrote, and no deletion was requested since it began.
func (s *Set) Decide(now time.Time, seed uint64, o Object, past Past, scene Scene) Decision {
	uid, version := identity(o)
	v := expr.View{Object: o, Now: now, Seed: seed, UID: uid, Played: past.Played}
	d := Decision{UID: uid, ResourceVersion: version, seed: seed, played: past.Played}
	if past.IdleAt == version {
		d.idle = past.Idle
	}
	stages := s.stages(KindOf(o))
	if past.Resume.Stage != "" && d.resume(stages, &v, past) {
		return d
	}
	var few [8]*Compiled
	matching := few[:0]
	for _, c := range stages {
		if !c.timer && c.matches(&v, scene) {
			matching = append(matching, c)
		}
		d.took(c.Name, &v)
	}
	d.Reason.Matching = len(matching)
	switch len(matching) {
	case 0:
	case 1:
		d.choose(matching[0], &v, now, past, OnlyStage)
	default:
		d.draw(matching, &v, now, past)
	}
	for _, c := range stages {
		if !c.timer || !c.matches(&v, scene) {
			d.took(c.Name, &v)
			continue
		}
		t := Decision{UID: uid, ResourceVersion: version, Reason: Reason{Matching: len(matching) + 1}, seed: seed, played: past.Played, idle: d.idle}
		t.choose(c, &v, now, past, TimerStage)
		switch {
		case t.Chosen() && (!d.Chosen() || t.Due.Before(d.Due)):
			t.LeftOut, t.Overran = d.LeftOut, append(d.Overran, t.Overran...)
			d = t
		case t.Reason.Code == Held:
			d.LeftOut = append(d.LeftOut, LeftOut{Stage: c.Name, Code: Held, Problem: t.Problem})
		}
	}
	return d
}

// draw chooses among several stages that match. matching is the caller's own.
func (d *Decision) draw(matching []*Compiled, v *expr.View, now time.Time, past Past) {
	eligible := matching[:0]
	for _, c := range matching {
		l, out := c.leftOut(v, now, past, d.ResourceVersion)
		d.took(c.Name, v)
		if out {
			d.leave(l)
			continue
		}
		eligible = append(eligible, c)
	}
	for len(eligible) > 0 {
		i := d.race(eligible, v)
		best := eligible[i]
		d.choose(best, v, now, past, DrawnStage)
		// What was chosen for this version before has been looked at.
		if known := past.IdleAt == d.ResourceVersion && past.Stage == best.Name; known || !d.changesNothing(v) {
			return
		}
		*d = Decision{UID: d.UID, ResourceVersion: d.ResourceVersion, Reason: Reason{Matching: d.Reason.Matching}, LeftOut: d.LeftOut, Overran: d.Overran, seed: d.seed, played: d.played, idle: d.idle}
		d.leave(LeftOut{Stage: best.Name, Code: NothingToDo})
		eligible = slices.Delete(eligible, i, i+1)
	}
	// Nothing may be drawn: the decision names one of those left out, one with a
	// problem first.
	at := max(slices.IndexFunc(d.LeftOut, func(l LeftOut) bool { return l.Code == Held }), 0)
	l := d.LeftOut[at]
	d.LeftOut = slices.Delete(d.LeftOut, at, at+1)
	d.Stage, d.Reason.Code, d.Problem = l.Stage, l.Code, l.Problem
}

// leave leaves a stage out of the draw.
func (d *Decision) leave(l LeftOut) {
	d.LeftOut = append(d.LeftOut, l)
	if l.Code == NothingToDo && !slices.Contains(d.idle, l.Stage) {
		d.idle = append(slices.Clip(d.idle), l.Stage)
	}
}

// leftOut reports whether a stage that matches must not be drawn, as far as that is known without playing it.
func (c *Compiled) leftOut(v *expr.View, now time.Time, past Past, version string) (LeftOut, bool) {
	if past.idle(c.Name, version) {
		return LeftOut{Stage: c.Name, Code: NothingToDo}, true
	}
	if !c.delay.mayHold() {
		return LeftOut{}, false
	}
	since := now
	if past.Stage == c.Name {
		since = past.Since
	}
	at := *v
	at.Now = since
	_, _, held, trouble := c.delay.bounds(&at, since, c.Name)
	v.Exceeded = at.Exceeded
	return LeftOut{Stage: c.Name, Code: Held, Problem: trouble}, held
}

// changesNothing plays the chosen stage at its due time and reports whether it would neither write nor record
// anything. A stage that asks for facts outside the object, such as an address, and one that fails, count as
// stages that change something.
func (d *Decision) changesNothing(v *expr.View) bool {
	if !d.Chosen() {
		return false
	}
	asked := false
	object := v.Object
	m := render.Moment{
		Now: maxOf(d.Due, v.Now), Facts: askedFacts{&asked}, Object: object,
		Chance: render.Chance{Seed: v.Seed, UID: v.UID, Stage: d.Stage, Played: v.Played},
	}
	var e Effects
	var err error
	if d.chosen.oneUpdate { // direct calls keep the decision off the heap
		e, _, err = playUpdate(d, object, m)
	} else {
		e, _, err = playRequests(d, object, m)
	}
	return err == nil && !asked && e.Empty()
}

func maxOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// askedFacts notes that facts were asked for.
type askedFacts struct{ asked *bool }

func (a askedFacts) NodeIPs(string) ([]string, error)           { *a.asked = true; return nil, nil }
func (a askedFacts) PodIPs(types.UID, string) ([]string, error) { *a.asked = true; return nil, nil }
func (a askedFacts) NodePort() int                              { *a.asked = true; return 0 }
func (a askedFacts) Version() string                            { *a.asked = true; return "" }
func (a askedFacts) StartTime() time.Time                       { *a.asked = true; return time.Time{} }

// choose sets the chosen stage, unless it has nothing to do or is held.
func (d *Decision) choose(c *Compiled, v *expr.View, now time.Time, past Past, code Code) {
	d.Stage = c.Name
	d.Reason.Repeats = past.Last == c.Name
	if past.idle(c.Name, d.ResourceVersion) {
		d.Reason.Code = NothingToDo
		return
	}
	d.Reason.Code = code
	d.Since = now
	if past.Stage == c.Name {
		d.Since = past.Since
	}
	v.Now = d.Since
	wait, held, trouble := c.delay.after(v, d.Since, c.Name)
	v.Now = now
	d.took(c.Name, v)
	d.Problem = trouble
	if held {
		d.Reason.Code = Held
		return
	}
	d.chosen = c
	d.Due, d.Slowed = d.dueAfter(wait, past)
}

// dueAfter is when a chosen stage with a delay is played, and whether the object's
// budget of writes makes it wait.
func (d *Decision) dueAfter(wait time.Duration, past Past) (due time.Time, slowed bool) {
	due = d.Since.Add(wait)
	if earliest := past.LastAt.Add(MinRepeat); d.Reason.Repeats && due.Before(earliest) {
		due = earliest
	}
	if earliest := past.Paid.Add(-(WriteBurst - 1) * WriteEvery); due.Before(earliest) {
		return earliest, true
	}
	return due, false
}

// race returns the index of the stage that wins the draw.
func (d *Decision) race(of []*Compiled, v *expr.View) (won int) {
	var bestScore float64
	var bestRank rank
	for i, c := range of {
		weight, rank := c.weigh(v)
		d.took(c.Name, v)
		at := score(expr.Draw(v.Seed, v.UID, c.Name, v.Played, expr.ForChoice), weight)
		if i == 0 || rank < bestRank || rank == bestRank && at < bestScore {
			won, bestScore, bestRank = i, at, rank
		}
	}
	return won
}

func (c *Compiled) matches(v *expr.View, scene Scene) bool {
	if c.needsNodeReady && !scene.NodeReady {
		return false
	}
	for i := range c.Requirements {
		if !c.Requirements[i].Holds(v, c.Name) {
			return false
		}
	}
	return true
}

// Draw returns a uniform number in [0, 1) for other components that need randomness about one object. It depends
// on (seed, UID, actor, n) and on nothing else.
func Draw(seed uint64, uid types.UID, actor string, n uint64) float64 {
	return expr.Draw(seed, uid, actor, n, expr.ForOther)
}

// score turns a draw into a place in a weighted race: the stage with the least
// score is chosen, and each wins with probability weight / sum of weights. A
// stage that leaves the race changes the winner only if it was the winner.
func score(u, weight float64) float64 {
	return -math.Log1p(-u) / weight
}
