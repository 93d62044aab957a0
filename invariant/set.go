package invariant

// Set is the invariants of one object whose controller is tested, such as those that
// invariant/job.Invariants and invariant/cloneset.Invariants return.
type Set struct {
	// Always must hold at every moment of the run.
	Always []Invariant
	// AtQuiescence must hold once nothing changes any more. Its check uses the state that Always has recorded
	// since the start of the run, so it must not be used without Always.
	AtQuiescence Invariant
}
