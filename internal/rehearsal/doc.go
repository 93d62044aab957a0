// Package rehearsal runs scenarios with real processes on the machine's clock. Each run has a world of its
// own in an in-process API server, the simulated kubelets and controllers that the scenario names, and the
// clients under test, each behind a listener of package proxy. Harness implements sim.World: package sim
// searches, confirms and shrinks.
//
// The harness prepares one world and forks it for each run. So every run begins with the same objects, within
// a millisecond, and several runs execute in parallel. A run starts its clients and kills them at its end: no
// client keeps state from one run to the next. With Options.Target, runs use an external cluster instead, one
// at a time, and the harness restores the cluster between them.
//
// The package chooses no faults, keeps no files and prints nothing: internal/cli does. It imports no upstream
// controller: the caller provides them (Options.NewControllers).
//
// Floor: F4. Imports apiserver, proxy, verdict, scenario and what is below them.
package rehearsal
