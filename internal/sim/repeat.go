package sim

// Tally counts the runs that repeat a failure.
type Tally struct {
	// Repeats is the number of runs with the plan of the failure. Same of them failed in the same way, and
	// Identical of those had the same steps.
	Repeats, Same, Identical int
}

// The numbers of repeats. A failure that reproduces in each of the first repeats is repeated no more. One that
// depends on timing is repeated up to maxRepeats times, for its rate; fewer if it is frequent.
const (
	firstRepeats = 3
	someRepeats  = 10
	maxRepeats   = 20
	// frequent failures reproduce in this many of someRepeats.
	frequent = 7
	// minSame is how often a failure must reproduce. Below it, the failure was seen once.
	minSame = 2
)

// more returns how many repeats are needed before the next decision; 0: the result is decided. seenBefore: the
// same failure was repeated maxRepeats times before, without success, so that it must reproduce at once to be
// repeated further.
func (t Tally) more(seenBefore bool) int {
	switch {
	case t.Repeats < firstRepeats:
		return firstRepeats - t.Repeats
	case t.Same == t.Repeats, seenBefore && t.Same < minSame:
		return 0
	case t.Repeats < someRepeats:
		return someRepeats - t.Repeats
	case t.Repeats == someRepeats && t.Same >= frequent:
		return 0
	}
	return max(0, maxRepeats-t.Repeats)
}

// reproducible reports whether the failure reproduces; otherwise it was seen once.
func (t Tally) reproducible() bool { return t.Same >= minSame }

// add counts one more repeat.
func (t Tally) add(same, identical bool) Tally {
	t.Repeats++
	if same {
		t.Same++
		if identical {
			t.Identical++
		}
	}
	return t
}

// rate is the fraction of the repeats that failed in the same way.
func (t Tally) rate() float64 { return float64(t.Same) / float64(max(1, t.Repeats)) }

// hasLowRate reports whether the failure reproduces in fewer than half of the repeats.
func (t Tally) hasLowRate() bool { return 2*t.Same < t.Repeats }

// deterministic reports whether each repeat had the same steps.
func (t Tally) deterministic() bool { return t.Repeats >= firstRepeats && t.Identical == t.Repeats }

// decision is what compare decides about a smaller plan. If repeats is not 0, that many more runs of the
// smaller plan are needed first, or, if found is set, of the plan that was found.
type decision struct {
	accept  bool
	repeats int
	found   bool
}

// compare decides whether a smaller plan fails as reliably as the plan that was found.
//
// If all runs of the plan that was found had the same steps, the smaller plan must fail in each of the first
// repeats. Otherwise it is repeated by the same rule as the plan that was found, must reproduce, and must not be
// significantly worse. So a fault stays in the plan only if the failure depends on it.
func compare(smaller, found Tally) decision {
	if found.deterministic() {
		switch {
		case smaller.Same < smaller.Repeats:
			return decision{}
		case smaller.Repeats < firstRepeats:
			return decision{repeats: firstRepeats - smaller.Repeats}
		}
		return decision{accept: true}
	}
	if smaller.significantlyWorse(found) {
		return decision{}
	}
	if n := smaller.more(false); n > 0 {
		return decision{repeats: n}
	}
	if smaller.Same < smaller.Repeats && found.Repeats < someRepeats {
		return decision{repeats: someRepeats - found.Repeats, found: true} // so few repeats distinguish little
	}
	return decision{accept: smaller.reproducible()}
}

// raises decides whether a plan with one more delay fails more often than the plan that was found: it is repeated
// by the same rule, and must be significantly better. If the plan that was found fails often, the other one must
// fail in each of someRepeats.
func raises(delayed, found Tally) decision {
	if !found.hasLowRate() {
		if delayed.Same < delayed.Repeats {
			return decision{}
		}
		return decision{accept: delayed.Repeats >= someRepeats, repeats: max(0, someRepeats-delayed.Repeats)}
	}
	if delayed.Repeats >= firstRepeats && delayed.rate() <= found.rate() {
		return decision{}
	}
	if n := delayed.more(false); n > 0 {
		return decision{repeats: n}
	}
	return decision{accept: found.significantlyWorse(delayed)}
}

// significance is the probability below which a lower rate counts as no accident.
const significance = 0.1

// significantlyWorse reports whether the rate of t is lower than that of other, by Fisher's exact test: if both
// plans failed equally often, t would fail this rarely with a probability below significance.
func (t Tally) significantlyWorse(other Tally) bool {
	all, failed := t.Repeats+other.Repeats, t.Same+other.Same
	p := 0.0
	for same := max(0, failed-other.Repeats); same <= t.Same; same++ {
		p += choose(failed, same) * choose(all-failed, t.Repeats-same)
	}
	return p/choose(all, t.Repeats) < significance
}

// choose returns the number of ways to choose k of n.
func choose(n, k int) float64 {
	if k < 0 || k > n {
		return 0
	}
	ways := 1.0
	for i := 1; i <= k; i++ {
		ways = ways * float64(n-k+i) / float64(i)
	}
	return ways
}
