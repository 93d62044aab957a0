package stage

import (
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"slices"
	"time"
)

// Option is one of the stages that may be next for an object.
type Option struct {
	Stage string
	// Timer: it is not drawn, and played where it is due before what is drawn. It
	// has no Weight.
	Timer bool
	// Weight is what the stage races with. Share is the chance that the stage is
	// what is played next: that it is drawn, and that no timer is due before it;
	// for a timer, that it is due before what is drawn and before other timers.
	Weight int64
	Share  float64
	// Least and Most are what its delay is drawn between; Most itself is not
	// drawn unless both are equal.
	Least, Most time.Duration
	// Problem says what about weight or delay could not be read from the object;
	// Held, that the stage then waits until the object changes. Idle: the stage would
	// change nothing. Where several stages match, neither takes part in the draw.
	Problem    string
	Held, Idle bool

	decision         Decision
	earliest, latest time.Time // it is due between these
	rank             rank
	pull             float64 // the weight in the race
}

// Decision is what Decide would say were this option played, due after Least.
func (o *Option) Decision() Decision { return o.decision }

// Options returns every stage that may be next, by name, and after them the timers. Decide chooses each as often
// as its Share says.
func (s *Set) Options(now time.Time, seed uint64, o Object, past Past, scene Scene) []Option {
	uid, version := identity(o)
	v := expr.View{Object: o, Now: now, Seed: seed, UID: uid, Played: past.Played}
	var drawn, timers []Option
	for _, c := range s.stages(KindOf(o)) {
		matches := c.matches(&v, scene)
		v.Exceeded = nil
		if !matches {
			continue
		}
		option := Option{Stage: c.Name, Timer: c.timer, decision: Decision{UID: uid, ResourceVersion: version, seed: seed, played: past.Played}}
		option.delayed(c, &v, now, past)
		if c.timer {
			timers = append(timers, option)
			continue
		}
		option.pull, option.rank = c.weigh(&v)
		if option.rank == rankWeighed {
			option.Weight = int64(option.pull)
		}
		if option.Problem == "" {
			option.Problem = c.weightProblem(&v)
		}
		drawn = append(drawn, option)
	}
	if len(drawn) > 1 {
		for i := range drawn {
			option := &drawn[i]
			option.Idle = past.idle(option.Stage, version) || option.decision.changesNothing(&v)
			if option.Idle {
				option.decision.chosen, option.decision.Reason.Code = nil, NothingToDo
			}
		}
	}
	share(drawn)
	for i := range drawn {
		drawn[i].decision.matching(len(drawn))
	}
	for i := range timers {
		timers[i].decision.matching(len(drawn) + 1)
	}
	raceTimers(drawn, timers)
	return slices.Concat(drawn, timers)
}

// delayed fills in when the stage is due.
func (o *Option) delayed(c *Compiled, v *expr.View, now time.Time, past Past) {
	code := DrawnStage
	if c.timer {
		code = TimerStage
	}
	d := &o.decision
	d.choose(c, v, now, past, code)
	since := *v
	if since.Now = now; !d.Since.IsZero() {
		since.Now = d.Since
	}
	least, most, held, trouble := c.delay.bounds(&since, since.Now, c.Name)
	o.Least, o.Most, o.Held, o.Problem = max(least, 0), max(most, 0), held, trouble
	if d.Chosen() {
		o.earliest, d.Slowed = d.dueAfter(o.Least, past)
		o.latest, _ = d.dueAfter(o.Most, past)
		d.Due = o.earliest
	}
}

// matching says how many match, once that is known.
func (d *Decision) matching(n int) {
	d.Reason.Matching = n
	if n == 1 && d.Reason.Code == DrawnStage {
		d.Reason.Code = OnlyStage
	}
}

// share divides the draw by weight among those of the best rank that are not left
// out of it.
func share(drawn []Option) {
	left := func(o *Option) bool { return len(drawn) > 1 && (o.Held || o.Idle) }
	best, sum := rankBroken, 0.0
	for i := range drawn {
		if left(&drawn[i]) {
			continue
		}
		if drawn[i].rank < best {
			best, sum = drawn[i].rank, 0
		}
		if drawn[i].rank == best {
			sum += drawn[i].pull
		}
	}
	for i := range drawn {
		if drawn[i].rank == best && !left(&drawn[i]) {
			drawn[i].Share = drawn[i].pull / sum
		}
	}
}

// raceTimers gives each timer the chance that it is due before what is drawn and before
// all other timers, and takes it from what is drawn.
func raceTimers(drawn, timers []Option) {
	if !slices.ContainsFunc(drawn, func(o Option) bool { return o.Share > 0 }) {
		drawn = []Option{{Share: 1}} // never due, as what is held or has nothing to do
	}
	for i := range drawn {
		d := &drawn[i]
		all := d.Share
		for k := range timers {
			won := all * wins(d, timers, k)
			timers[k].Share += won
			d.Share -= won
		}
		if d.Share < 1e-9 {
			d.Share = 0 // what rounding leaves
		}
	}
}

// moments is how many times of a timer whose delay is drawn stand for all.
const moments = 64

// wins is the chance that timer k is first if d is drawn: exact for a timer with
// one due time, as those have that read it from the object.
func wins(d *Option, timers []Option, k int) float64 {
	t := &timers[k]
	if !t.decision.Chosen() {
		return 0
	}
	n, width := moments, t.latest.Sub(t.earliest)
	if width == 0 {
		n = 1
	}
	sum := 0.0
	for i := range n {
		at := t.earliest.Add(time.Duration(float64(width) * (float64(i) + 0.5) / float64(n)))
		chance := d.after(at, false)
		for other := range timers {
			if other != k {
				chance *= timers[other].after(at, other > k) // of two that are due together, the first
			}
		}
		sum += chance
	}
	return sum / float64(n)
}

// after is the chance that an option is due after a time; with orThen, at it too.
func (o *Option) after(at time.Time, orThen bool) float64 {
	switch {
	case !o.decision.Chosen() || at.Before(o.earliest) || orThen && at.Equal(o.earliest):
		return 1
	case !at.Before(o.latest):
		return 0
	}
	return float64(o.latest.Sub(at)) / float64(o.latest.Sub(o.earliest))
}
