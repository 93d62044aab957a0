// Package sim searches for failures: it chooses the faults of each run, decides when to stop,
// shrinks a failing plan, and replays plans.
//
// It knows nothing about virtual time or Go controllers. A [World] plays a [Plan] and returns the
// record of the run as a history.Run: simtest in virtual time, internal/rehearsal with real
// processes. What a run means (quiescence, comparison with the runs without faults, the summary of a
// failure) is decided by package verdict.
//
// Floor: F2. Imports fault, history, coverage and verdict.
package sim
