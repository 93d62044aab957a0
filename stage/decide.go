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

// MinRepeat is the minimum time between two runs of one stage on one object without another stage in between.
// Without it, a stage that matches its own result and has no delay would write as fast as the API answers.
const MinRepeat = time.Second

// WriteBurst is the number of stages that may write one object without a pause; then one more may write every
// WriteEvery. Without this budget, two stages without a delay that undo each other would write as fast as the API
// answers. A stage with several requests counts once.
const (
	WriteBurst = 30
	WriteEvery = time.Second
)

// Past is the state that the caller stores for an object between two decisions. The zero value is an unknown
// object. Decided and After update it.
type Past struct {
	// Stage is the stage that the last decision chose; empty for none.
	Stage string
	// Since is the time at which Stage was chosen. An update after which the same stage is chosen does not change
	// it.
	Since time.Time
	// Played counts the stages that were played on this object or given up. It makes the draws for repeated stages
	// differ.
	Played uint64
	// Last is the stage that was played last, at the time LastAt.
	Last   string
	LastAt time.Time
	// Idle contains the stages that would change nothing at the resourceVersion IdleAt. The slice is shared and
	// must not be changed.
	IdleAt string
	Idle   []string
	// Paid is the time up to which writes have used the object's budget: each write takes WriteEvery.
	Paid time.Time
	// Resume is an unfinished stage. It continues before another stage is chosen.
	Resume Resume
}

// Decided records a decision for which p was the input.
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

// After returns the Past after the stage of a decision was played. wrote is false if the stage changed nothing.
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

// GivenUp returns the Past after the API rejected a stage repeatedly: the rest of the stage is canceled, and the
// next stage is drawn again.
func (p Past) GivenUp() Past {
	p.Resume = Resume{}
	p.Played++
	return p
}

// idle reports whether a stage is known to change nothing at a version.
func (p *Past) idle(stage, version string) bool {
	return p.IdleAt != "" && p.IdleAt == version && slices.Contains(p.Idle, stage)
}

// Scene is the input of a decision besides the object and its past.
type Scene struct {
	// NodeReady is true if the node of a pod is Ready. Stages with NodeReadyAnnotation are chosen only then.
	NodeReady bool
}

// NodeReadyAnnotation on a Stage, with the value "true", excludes pods whose node is not Ready.
const NodeReadyAnnotation = "rehearse-k8s.github.io/node-ready"

// TimerAnnotation on a Stage, with the value "true", excludes it from the draw by weight. The engine plays the
// timer or the drawn stage, whichever is due first. So a stage that is due at a fixed time (a deadline, the end of
// a back-off) neither blocks other stages nor is blocked by them. The delay should lead to a time that the object
// contains: a delay that counts from now restarts after each other stage.
const TimerAnnotation = "rehearse-k8s.github.io/timer"

// Code is the reason for a decision, in one word.
type Code uint8

// The codes of a Reason.
const (
	// NoStage: no stage matches. Only a change of the object can change this.
	NoStage Code = iota
	// OnlyStage: exactly one stage matches.
	OnlyStage
	// DrawnStage: several stages match, and this one was drawn by weight.
	DrawnStage
	// NothingToDo: the matching stages would not change this version of the object. Only a change of the object can
	// change this.
	NothingToDo
	// Resumed: the stage was interrupted and continues.
	Resumed
	// Held: the delay of the chosen stage is invalid on this object and the stage has no fixed delay; Problem
	// contains the reason. Only a change of the object can change this.
	Held
	// TimerStage: the stage is a timer, and is due before the drawn stage.
	TimerStage
)

// Reason is the reason for a decision.
type Reason struct {
	Code Code
	// Matching is the number of stages that match.
	Matching int
	// Repeats is true if the chosen stage is also the last one played.
	Repeats bool
}

// Decision is the next stage for one version of one object, and its due time. The zero Decision chooses no stage.
type Decision struct {
	// Stage is the name of the chosen stage; empty for none.
	Stage string
	// Since is the time at which Stage was chosen. Due is the time at which it should be played.
	Since, Due time.Time
	Reason     Reason
	// Problem explains which value of the chosen stage is invalid on this object: the fixed delay replaces its
	// delay, or the stage is Held.
	Problem string
	// LeftOut contains the stages that match and that the draw excludes.
	LeftOut []LeftOut
	// Overran contains the stages with an expression that exceeds its budget on this object. If the expression is
	// in the selector, the stage is not chosen.
	Overran []Overrun
	// Slowed is true if the stage waits because the write budget of the object is exhausted: WriteBurst stages
	// wrote without a pause.
	Slowed bool

	// UID and ResourceVersion identify the version of the object that the decision is for.
	UID             types.UID
	ResourceVersion string

	chosen *Compiled
	seed   uint64
	played uint64
	step   int      // the operation to start with
	idle   []string // known to change nothing
	base   Object   // for a resumed stage: the object without the fields that the stage wrote
}

// LeftOut is a stage that matches and that the draw excludes: it would change nothing (NothingToDo), or its delay
// is invalid (Held), as Problem explains.
type LeftOut struct {
	Stage   string
	Code    Code
	Problem string
}

// Overrun is a stage that exceeds its budget, and the expression that does.
type Overrun struct {
	Stage, Problem string
}

// took records that an expression of a stage has exceeded its budget since the last call.
func (d *Decision) took(stage string, v *expr.View) {
	if v.Exceeded != nil {
		d.Overran = append(d.Overran, Overrun{Stage: stage, Problem: v.Exceeded.Error()})
		v.Exceeded = nil
	}
}

// String returns the reason in one line.
func (l LeftOut) String() string {
	if l.Code == Held {
		return l.Stage + " is held: " + l.Problem
	}
	return l.Stage + " would change nothing"
}

// Chosen reports whether there is a stage to play, now or later.
func (d *Decision) Chosen() bool { return d.chosen != nil }

// String returns the decision in one line, for logs and golden files.
func (d *Decision) String() string {
	switch d.Reason.Code {
	case NothingToDo:
		return "nothing: " + d.Stage + " would not change this version"
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

// Decide returns the next stage for the newest version of an object, and its due time. It does not check whether
// the stage is due yet: the caller compares Due with the clock. A decision for a newer version keeps Since, and so
// the due time, if it chooses the same stage.
//
// The rules are KWOK's, with these exceptions. All stages whose selector matches are candidates. A single candidate
// is chosen whatever its weight. Among several, the probability of each is proportional to its weight; if all
// weights are 0, all are equally probable. The draw excludes stages that would change nothing and stages with an
// invalid delay (KWOK draws them too, and the object then waits for nothing), and timers (TimerAnnotation). The
// draw depends on (seed, UID, stage, number of stages played), so it is the same each time.
//
// An interrupted stage resumes (Past.Resume) if its selector matches the object without the fields that the stage
// itself wrote, and no deletion was requested since it started.
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

// draw chooses among several matching stages. The caller owns matching.
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
		// The stage that was chosen for this version before was already checked.
		if known := past.IdleAt == d.ResourceVersion && past.Stage == best.Name; known || !d.changesNothing(v) {
			return
		}
		*d = Decision{UID: d.UID, ResourceVersion: d.ResourceVersion, Reason: Reason{Matching: d.Reason.Matching}, LeftOut: d.LeftOut, Overran: d.Overran, seed: d.seed, played: d.played, idle: d.idle}
		d.leave(LeftOut{Stage: best.Name, Code: NothingToDo})
		eligible = slices.Delete(eligible, i, i+1)
	}
	// No stage can be drawn: the decision names one of the excluded stages, preferably one with a problem.
	at := max(slices.IndexFunc(d.LeftOut, func(l LeftOut) bool { return l.Code == Held }), 0)
	l := d.LeftOut[at]
	d.LeftOut = slices.Delete(d.LeftOut, at, at+1)
	d.Stage, d.Reason.Code, d.Problem = l.Stage, l.Code, l.Problem
}

// leave excludes a stage from the draw.
func (d *Decision) leave(l LeftOut) {
	d.LeftOut = append(d.LeftOut, l)
	if l.Code == NothingToDo && !slices.Contains(d.idle, l.Stage) {
		d.idle = append(slices.Clip(d.idle), l.Stage)
	}
}

// leftOut reports whether the draw must exclude a matching stage, as far as this is known without playing it.
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

// changesNothing plays the chosen stage at its due time, and reports whether it would neither write nor emit an
// Event. A stage that requests facts from outside the object, such as an address, and a stage that fails, count as
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

// askedFacts records that a template requested facts.
type askedFacts struct{ asked *bool }

func (a askedFacts) NodeIPs(string) ([]string, error)           { *a.asked = true; return nil, nil }
func (a askedFacts) PodIPs(types.UID, string) ([]string, error) { *a.asked = true; return nil, nil }
func (a askedFacts) NodePort() int                              { *a.asked = true; return 0 }
func (a askedFacts) Version() string                            { *a.asked = true; return "" }
func (a askedFacts) StartTime() time.Time                       { *a.asked = true; return time.Time{} }

// choose sets the chosen stage, unless it would change nothing or is held.
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

// dueAfter returns the due time of a chosen stage with a delay, and whether the write budget of the object delays
// it.
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

// Draw returns a uniform number in [0, 1) for other components that need randomness for one object. It depends only
// on (seed, UID, actor, n).
func Draw(seed uint64, uid types.UID, actor string, n uint64) float64 {
	return expr.Draw(seed, uid, actor, n, expr.ForOther)
}

// score turns a random number into a score of a weighted draw. The stage with the lowest score is chosen, so each
// stage wins with probability weight / sum of weights. Removing a stage changes the winner only if it was the
// winner.
func score(u, weight float64) float64 {
	return -math.Log1p(-u) / weight
}
