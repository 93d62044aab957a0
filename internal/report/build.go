package report

import (
	"slices"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// New returns a report of runs.
func New(runs ...*Run) *Report {
	if runs == nil {
		runs = []*Run{}
	}
	return &Report{APIVersion: APIVersion, Kind: Kind, Runs: runs}
}

// Of derives the report of a run. nearest is the most similar passing run, or nil.
func Of(file string, run, nearest *history.Run) *Run {
	r := of(run, nearest)
	r.File = file
	if nearest == nil {
		return r
	}
	r.Nearest = of(nearest, nil)
	if d, ok := run.DepartsFrom(nearest); ok {
		r.Departs, r.departure = &d.Step, d
	}
	return r
}

func of(run, nearest *history.Run) *Run {
	r := &Run{
		Test: run.Test, Tool: run.Tool, Seed: run.Seed, Start: run.Start, Inferred: run.Live, Schedule: run.Schedule,
		Cause: Cause(run, nearest), Controllers: run.Controllers(), StaleWrites: staleWrites(run), record: run,
	}
	for _, text := range run.Faults {
		words, effective := plannedFault(run, text)
		r.Faults = append(r.Faults, Fault{Text: text, Words: words, NoEffect: !effective})
	}
	switch f := run.Failure; {
	case f != nil:
		step := f.Step
		r.Verdict = Verdict{Result: Failed, Invariant: f.Oracle, Message: f.Message, Step: &step, At: f.At}
	case run.Inconclusive != "":
		r.Verdict = Verdict{Result: Inconclusive, Message: run.Inconclusive}
	default:
		r.Verdict = Verdict{Result: Passed}
	}
	r.Steps = stepsOf(run)
	return r
}

// maxUnseen limits the list of writes that a cache has not observed.
const maxUnseen = 20

// stepsOf derives the steps of a report from the steps of the record.
func stepsOf(run *history.Run) []Step {
	steps := make([]Step, len(run.Steps))
	p := newReplay(run)
	objects := newArchive(run)
	led := map[int]bool{}
	if run.Failure != nil {
		led = verdict.Causes(run, run.Failure.Step)
	}
	controllers := run.Controllers()
	for n := range run.Steps {
		from := &run.Steps[n]
		s := &steps[n]
		s.Step, s.LedToFailure, s.Delivery = *from, led[n], delivery(from)
		s.Changes, s.Unrecorded = nil, nil // Diffs replace the first, the search alone needs the others
		mine := slices.Contains(controllers, from.Actor)
		if from.Kind == history.Request {
			p.advance(n)
			if mine {
				s.Caches = p.cacheStates(from.Actor)
				s.WokenBy = wokenBy(run, n)
			}
			s.Diffs = objects.writeDiffs(p, from, mine)
			p.advance(n + 1)
		} else {
			before := objects.cachedBefore(p, from)
			p.advance(n + 1)
			if mine {
				s.Caches = p.cacheStates(from.Actor)
			}
			s.Diffs = objects.eventDiffs(from, before)
		}
		if from.Wrote() {
			s.Became = p.became(from)
		}
		for _, c := range controllers {
			if behind := p.behind(c); behind > 0 {
				if s.Behind == nil {
					s.Behind = map[string]int{}
				}
				s.Behind[c] = behind
			}
		}
	}
	return steps
}

func (p *replay) cacheStates(actor string) (all []CacheState) {
	for _, v := range p.viewsOf(actor) {
		b := CacheState{Resource: v.resource, Namespace: v.namespace, Selector: v.selector, Reached: v.reached, Behind: len(v.behind)}
		b.Unseen = slices.Clone(v.behind[max(0, len(v.behind)-maxUnseen):])
		all = append(all, b)
	}
	return all
}

// behind returns the number of writes that the caches of an actor have not observed.
func (p *replay) behind(actor string) (n int) {
	for _, v := range p.views {
		if v.actor == actor {
			n += len(v.behind)
		}
	}
	return n
}

// wokenBy returns the step that triggered the reconcile of a request: it follows the causes back, through the
// answers to earlier requests.
func wokenBy(run *history.Run, n int) *int {
	for at := n; len(run.Steps[at].Causes) > 0; {
		c := run.Steps[at].Causes[0]
		if c < 0 || c >= at { // the record is invalid
			return nil
		}
		at = c
		s := &run.Steps[at]
		if s.Kind == history.Answer && len(s.Causes) > 0 && s.Causes[0] >= 0 && s.Causes[0] < at {
			if q := s.Causes[0]; run.Steps[q].Kind == history.Request && run.Steps[q].Verb != "list" && run.Steps[q].Verb != "watch" {
				at = q
				continue
			}
		}
		if s.Kind != history.Request || s.Verb == "list" || s.Verb == "watch" {
			return &at
		}
	}
	return nil
}
