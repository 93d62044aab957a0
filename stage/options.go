package stage

import "time"

// Option is one of the stages that may be next for an object.
type Option struct {
	Stage string
	// Weight is what the stage races with, and Share the chance that it wins.
	Weight int64
	Share  float64
	// Least and Most are what its delay is drawn between; Most itself is not
	// drawn unless both are equal.
	Least, Most time.Duration
	// Problem says what about weight or delay could not be read from the object;
	// Held, that the stage then waits until the object changes.
	Problem string
	Held    bool

	decision Decision
}

// Decision is what Decide would say had this option been drawn, due after Least.
func (o *Option) Decision() Decision { return o.decision }

// Options lists every stage that may be next, by name. Decide draws one of them,
// by the shares they have here.
func (s *Set) Options(now time.Time, seed uint64, o Object, past Past, scene Scene) []Option {
	uid, version := identity(o)
	v := view{object: o, now: now, seed: seed, uid: uid, played: past.Played}
	var out []Option
	var ranks []rank
	best, sum := rankBroken, 0.0
	weights := []float64{}
	for _, c := range s.stages(KindOf(o)) {
		if !c.matches(&v, scene) {
			continue
		}
		weight, rank := c.weigh(&v)
		least, most, held, trouble := c.delay.bounds(&v, now, c.name)
		option := Option{
			Stage: c.name, Least: max(least, 0), Most: max(most, 0), Held: held, Problem: trouble,
			decision: Decision{
				Stage: c.name, Since: now, Due: now.Add(max(least, 0)), UID: uid, ResourceVersion: version, Problem: trouble,
				chosen: c, seed: seed, played: past.Played,
				Reason: Reason{Code: DrawnStage, Repeats: past.Last == c.name},
			},
		}
		if option.Problem == "" {
			option.Problem = c.weightProblem(&v)
		}
		if rank == rankWeighed {
			option.Weight = int64(weight)
		}
		if held {
			option.decision.chosen, option.decision.Reason.Code = nil, Held
		}
		if rank < best {
			best, sum = rank, 0
		}
		if rank == best {
			sum += weight
		}
		out, ranks, weights = append(out, option), append(ranks, rank), append(weights, weight)
	}
	for i := range out {
		d := &out[i].decision
		d.Reason.Matching = len(out)
		if len(out) == 1 && d.Reason.Code == DrawnStage {
			d.Reason.Code = OnlyStage
		}
		if ranks[i] == best {
			out[i].Share = weights[i] / sum
		}
		if earliest := past.LastAt.Add(MinRepeat); d.Reason.Repeats && d.Due.Before(earliest) {
			d.Due = earliest
		}
		if d.Reason.Repeats && past.Idle != "" && past.Idle == version {
			d.chosen, d.Reason.Code = nil, NothingToDo
		}
	}
	return out
}
