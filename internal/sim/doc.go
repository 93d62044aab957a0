// Package sim searches: which faults to try in which run, when to stop, how to make
// a failure small and to say what it was.
//
// It knows nothing of virtual time or of Go controllers. Whoever can carry out a
// [Plan] and tell what happened as a history.Run is a [World]: simtest in virtual
// time, the fault proxy with live processes.
package sim
