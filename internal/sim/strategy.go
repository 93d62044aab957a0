package sim

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Strategy is how a search chooses its plans. All but the default exist to be compared with it.
type Strategy string

// The strategies.
const (
	// Guided is the default: everything that docs/design/search.md describes.
	Guided Strategy = ""
	// Systematic is the search of the first version: every single fault in the order of its rank, then random combinations;
	// without schedules.
	Systematic Strategy = "systematic"
	// Random tries random combinations of one to three faults.
	Random Strategy = "random"
	// Schedules tries random schedules, and no faults.
	Schedules Strategy = "schedules"
)

// strategies maps the names of all strategies.
var strategies = map[string]Strategy{"guided": Guided, "systematic": Systematic, "random": Random, "schedules": Schedules}

// ParseStrategy parses guided, systematic, random or schedules.
func ParseStrategy(text string) (Strategy, error) {
	s, ok := strategies[text]
	if !ok {
		var names []string
		for name := range strategies {
			names = append(names, name)
		}
		slices.Sort(names)
		return "", fmt.Errorf("strategy %q: want one of %s", text, strings.Join(names, ", "))
	}
	return s, nil
}

// unguided yields the plans of a strategy that learns nothing from runs.
func (s *search) unguided() iter.Seq[Plan] {
	return func(yield func(Plan) bool) {
		if s.options.Strategy == Systematic {
			for _, f := range s.singles {
				if !yield(Plan{Seed: s.options.Seed, Faults: []fault.Fault{f}}) {
					return
				}
			}
		}
		for n, again := 0, 0; again < redraws; n++ {
			var p Plan
			switch {
			case s.options.Strategy == Schedules && s.choices > 0:
				p = Plan{Seed: s.options.Seed, Schedule: s.drawSchedule("alone", n, 1+n%maxScheduleDepth)}
			case len(s.singles) > 0:
				p = s.randomPlan(n)
			}
			if len(p.Faults) == 0 && p.Schedule.IsZero() || s.tried[identity(p)] {
				again++
				continue
			}
			again = 0
			if !yield(p) {
				return
			}
		}
	}
}

// randomPlan returns the nth random combination: the faults of a run with new behaviour and one or two more (systematic), or
// one to three of the run without faults (random).
func (s *search) randomPlan(n int) Plan {
	draw := func(of int, what string) int { return fault.Pick(of, s.options.Seed, "several", strconv.Itoa(n), what) }
	p, from, more := Plan{Seed: s.options.Seed}, s.singles, 1+draw(3, "more")
	if s.options.Strategy == Systematic {
		base := s.corpus[draw(len(s.corpus), "base")]
		p.Seed += uint64(draw(4, "seed"))
		p.Faults = slices.Clone(base.Plan.Faults)
		if len(p.Faults) >= maxFaults {
			p.Faults = slices.Delete(p.Faults, 0, 1)
		}
		from, more = faultsOf(s.ranked(base.Run, nil)), 1+draw(2, "more")
	}
	for range min(more, len(from)) {
		f := from[draw(len(from), "fault"+strconv.Itoa(len(p.Faults)))]
		if !slices.Contains(p.Faults, f) {
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}
