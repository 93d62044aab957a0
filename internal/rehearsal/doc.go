// Package rehearsal plays scenarios with real processes and by the machine's clock: each run
// has a world of its own in an API server of this process, the simulated kubelets and
// controllers that the scenario asks for, and the clients under test behind doors of
// package proxy. It is a sim.World: the search and everything after a failure are sim's.
//
// A world is a fork of one that was prepared once, so a run begins where all others
// begin, in a millisecond, and several go on side by side. The clients of a run are
// started for it and killed at its end: none keeps anything from one run to the next.
//
// It chooses no faults, keeps no files and prints nothing: internal/cli does. It knows no
// upstream controller: who calls it brings them (Options.Beside).
//
// Floor: F4. Imports apiserver, proxy, verdict, scenario and what is below them.
package rehearsal
