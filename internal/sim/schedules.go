package sim

import (
	"iter"
	"strconv"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

const (
	// scheduleEvery is after how many other plans one without faults and with a schedule is tried. The number doubles, up
	// to maxScheduleEvery, when such a run has the steps of an earlier one: few orders are left then.
	scheduleEvery    = 8
	maxScheduleEvery = 64
	// minSchedules is how many of these a search tries at least before it ends because no other plan is left.
	minSchedules = 32
	// maxScheduleDepth is the largest depth that is tried. Few bugs need more than three orders (Burckhardt et al.).
	maxScheduleDepth = 4
	// scheduledShare: one in so many random combinations gets a schedule.
	scheduledShare = 2
)

// withSchedules yields plans, and more with schedules: some without faults between the others, and some in place of random
// combinations.
func (s *search) withSchedules(plans iter.Seq[Plan]) iter.Seq[Plan] {
	if s.options.OldestFirst || s.choices == 0 {
		return plans
	}
	return func(yield func(Plan) bool) {
		alone, combined, others, every := 0, 0, 0, scheduleEvery
		next := func() bool {
			alone++
			distinct := s.result.Distinct
			more := yield(Plan{Seed: s.options.Seed, Schedule: s.drawSchedule("alone", alone, 1+(alone-1)%maxScheduleDepth)})
			if s.result.Distinct == distinct {
				every = min(2*every, maxScheduleEvery)
			}
			return more
		}
		for p := range plans {
			if p.extends != nil && p.Schedule.IsZero() { // others are tried as they are
				if combined++; combined%scheduledShare == 0 {
					p.Schedule = s.drawSchedule("combined", combined, 2+combined/scheduledShare%(maxScheduleDepth-1))
				}
			}
			if !yield(p) {
				return
			}
			if others++; others >= every {
				others = 0
				if !next() {
					return
				}
			}
		}
		for alone < minSchedules {
			if !next() {
				return
			}
		}
	}
}

// drawSchedule returns the nth schedule of a use.
func (s *search) drawSchedule(use string, n, depth int) history.Schedule {
	const seeds = 1_000_000 // short enough to read
	seed := fault.Draw(s.options.Seed, "schedule", use, strconv.Itoa(n)) % seeds
	return history.Schedule{Seed: seed, Depth: depth, Choices: s.choices}
}

// simplerSchedules returns the schedules to try instead of one, the simplest first: oldest first, then fewer change points.
func simplerSchedules(s history.Schedule) (simpler []history.Schedule) {
	if s.IsZero() {
		return nil
	}
	simpler = append(simpler, history.Schedule{})
	for depth := 1; depth < s.Depth; depth++ {
		simpler = append(simpler, history.Schedule{Seed: s.Seed, Depth: depth, Choices: s.Choices})
	}
	return simpler
}
