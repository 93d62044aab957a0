package invariant

// Automatic is an invariant that every run is checked for, although no scenario or test asks for it. A scenario
// turns it off with spec.invariants.disable, a test with World.Disable.
type Automatic struct {
	// Name is what disable expects.
	Name string
	// Sentence says what the invariant requires.
	Sentence string
}

// The names of the automatic invariants.
const (
	AutomaticEndState           = "EndState"
	AutomaticObservedGeneration = "ObservedGeneration"
	AutomaticQuiescence         = "Quiescence"
	AutomaticDeleted            = "Deleted"
	AutomaticNoOrphans          = "NoOrphans"
	AutomaticUniqueOwnerUID     = "UniqueOwnerUID"
	AutomaticHotLoop            = "HotLoop"
	AutomaticInvalidWrites      = "InvalidWrites"
	AutomaticClaims             = "Claims"
	AutomaticSuccessors         = "Successors"
	AutomaticLostUpdates        = "LostUpdates"
	AutomaticConditions         = "Conditions"
	AutomaticStaleOwnWrites     = "StaleOwnWrites"
)

// Automatics returns all automatic invariants, in the order of the documentation.
func Automatics() []Automatic {
	return []Automatic{
		{AutomaticEndState, "a run ends in the same state as the runs without faults"},
		{AutomaticObservedGeneration, "at the end, status.observedGeneration of an object has reached its metadata.generation, if it has without faults"},
		{AutomaticQuiescence, "the actors stop writing, apart from periodic writes that the runs without faults have too"},
		{AutomaticDeleted, "at the end, no object has a deletionTimestamp"},
		{AutomaticNoOrphans, "at the end, no object is controlled by an owner that does not exist any more, unless the runs without faults leave such objects too"},
		{AutomaticUniqueOwnerUID, "at the end, no controller reference has the name of an existing object and another UID"},
		{AutomaticHotLoop, "no controller sends more than 50 equal requests in 10s while nothing changes"},
		{AutomaticInvalidWrites, "at the end, no controller repeats a write, more than 5 times, that the API rejects as invalid (400, 405, 422), unless the runs without faults do so too"},
		{AutomaticClaims, "no controller deletes a PersistentVolumeClaim, unless another user has deleted an object before, or the runs without faults do so too"},
		{AutomaticSuccessors, "no controller deletes, without a precondition, a user's object that it has not observed, because it observed an earlier object of that name, unless the runs without faults do so too"},
		{AutomaticLostUpdates, "at the end, an object of the user has what another user has written into it: no controller has removed that by a write without a resourceVersion"},
		{AutomaticConditions, "at the end, no object has contradictory conditions (one type with two statuses; Complete and Failed; Ready and Stalled), unless the runs without faults do so too"},
		{AutomaticStaleOwnWrites, "no controller decides a write on a view that is older than its own last write (reported; a failure only in a test with `World.RequireObservedWrites`)"},
	}
}

// AutomaticNames returns the names of all automatic invariants.
func AutomaticNames() (names []string) {
	for _, a := range Automatics() {
		names = append(names, a.Name)
	}
	return names
}
