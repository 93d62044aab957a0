package stage

import (
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"slices"
	"time"
)

// Option is one of the stages that may be next for an object.
type Option struct {
	Stage string
	// Timer is true if the stage is a timer: the draw excludes it, and it is played if it is due before the drawn
	// stage. It has no Weight.
	Timer bool
	// Weight is the weight in the draw. Share is the probability that the stage is played next: that it is drawn
	// and no timer is due before it; for a timer, that it is due before the drawn stage and before other timers.
	Weight int64
	Share  float64
	// Least and Most are the bounds of its delay. Most is excluded unless both are equal.
	Least, Most time.Duration
	// Problem explains which weight or delay is invalid on the object. Held: the stage waits until the object
	// changes. Idle: the stage would change nothing. If several stages match, the draw excludes both.
	Problem    string
	Held, Idle bool

	decision         Decision
	earliest, latest time.Time // it is due between these times
	rank             rank
	pull             float64 // the weight in the draw
}

// Decision is the result of Decide if this option is played, due after Least.
func (o *Option) Decision() Decision { return o.decision }

// Options returns every stage that may be next, by name, then the timers. Decide chooses each with the probability
// Share.
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

// delayed sets the due times of the stage.
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

// matching sets the number of stages that match, when it is known.
func (d *Decision) matching(n int) {
	d.Reason.Matching = n
	if n == 1 && d.Reason.Code == DrawnStage {
		d.Reason.Code = OnlyStage
	}
}

// share distributes the probability of the draw by weight among the stages of the best rank that the draw does not
// exclude.
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

// raceTimers computes for each timer the probability that it is due before the drawn stage and before all other
// timers, and subtracts it from that of the drawn stages.
func raceTimers(drawn, timers []Option) {
	if !slices.ContainsFunc(drawn, func(o Option) bool { return o.Share > 0 }) {
		drawn = []Option{{Share: 1}} // never due, like a stage that is held or changes nothing
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
			d.Share = 0 // a rounding error
		}
	}
}

// moments is the number of sampled due times of a timer with a random delay.
const moments = 64

// wins returns the probability that timer k is first if d is drawn. It is exact for a timer with one due time, such
// as one that reads the time from the object.
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
				chance *= timers[other].after(at, other > k) // of two timers that are due at the same time, the first wins
			}
		}
		sum += chance
	}
	return sum / float64(n)
}

// after returns the probability that an option is due after a time, or with orThen also at that time.
func (o *Option) after(at time.Time, orThen bool) float64 {
	switch {
	case !o.decision.Chosen() || at.Before(o.earliest) || orThen && at.Equal(o.earliest):
		return 1
	case !at.Before(o.latest):
		return 0
	}
	return float64(o.latest.Sub(at)) / float64(o.latest.Sub(o.earliest))
}
