// Package simtest tests Go controllers in virtual time: real informers, work queues and managers against the code of the
// real API server, one event at a time, under faults and orders of events that Kubernetes may produce.
//
// # A test
//
// [Run] takes options and a function, the test. It calls the function once in each run, in an empty [World]:
//
//	func TestScaleDown(t *testing.T) {
//		simtest.Run(t, simtest.Seeds(200), func(w *simtest.World) {
//			w.Controller("web", web.Run)
//			w.Kubelet()
//			w.Faults(fault.Lag("pods"), fault.Crash("web"))
//			w.Always(invariant.AtMostPods(owner, 3))
//			w.Eventually(5*time.Minute, invariant.Ready(owner, 3))
//			w.Sometimes(invariant.Stale("web"))
//			w.Apply(set)
//		})
//	}
//
// The function runs on a goroutine of its own. It must not change variables outside of it and must not call t;
// [World.Fatalf] fails the run.
//
// # Controllers
//
// A controller is a [Constructor], func(context.Context, *rest.Config) error: it builds its clients, informers and queues, and
// returns when the context ends. A crash cancels the context and drops the requests; a restart calls the constructor again, so
// state outside of it (package variables) would survive a crash that a real process would not. [World.Controller] starts
// a client-go controller, [World.Manager] a controller-runtime manager, [World.Replicas] and [World.ManagerReplicas]
// several instances. [World.Kubelet] starts the stage engine and a small scheduler, so that pods run.
//
// # The user
//
// [World.Apply], [World.Create], [World.Update], [World.Patch] and [World.Delete] are requests of the user of the cluster.
// [World.Get] and [World.View] read the store without a request. [World.Advance] lets virtual time pass;
// [World.Settle] waits until no client has written for ten virtual seconds.
//
// # Invariants
//
// [World.Always] adds invariants that are checked after every step. [World.Eventually] adds one that must hold within a time
// after the test function has returned and the faults have ended. [World.Sometimes] adds one that must hold in at least one
// run: it shows that the test reaches the situation it is written for. Package invariant has ready-made ones.
//
// Some checks need no invariant: the world must converge to the state of the runs without faults, and stay there; controllers
// must not loop, panic, leak goroutines, or write without a precondition what they decided before they observed their
// own last write. [World.AllowDifferentOutcomes] turns the comparison off.
//
// # Faults and levels
//
// A fault goes wrong at one place: the third watch event of pods is delayed by 30 s, the answer to a write is lost, the
// controller crashes after a write. [World.Faults] restricts a test to some patterns; without it every kind of the level
// may be tried at every place. The level is fault.Legal unless [Options.Level] says otherwise: the API contract allows each
// legal fault, so a controller that fails under one has a bug. fault.Seen adds what real servers did although the contract
// forbids it, fault.Adversarial the rest.
//
// # Seeds and the search
//
// [Seeds] bounds the number of runs, [Options.Budget] their duration. The first three runs have no faults. Then each
// single fault is tried at each place where it could matter, then several at once, grown from the runs that took a way
// of their own. One step delivers one watch event or one response, executes one request, or advances the clock. The oldest
// one is next, and in some runs the one with the highest of random priorities (a schedule; [Options.OldestFirst] turns them
// off). So a run with the same seed, faults and schedule has the same steps and the same hash.
//
// # Failures and replay files
//
// A failure is run three more times and graded by how often it is the same; one that does not reproduce is
// listed and does not fail the test. Shrinking removes faults and shortens them as long as the failure remains. The
// test then prints one sentence with the cause, the steps as lanes (user, API, each controller's cache and its reconciles),
// and the command that replays it. The run is stored in testdata/simtest/TEST/HASH.jsonl, the nearest passing run next to
// it; stored runs are replayed first the next time. A replay compares the hash of every step and reports
// "diverged at step N" when the code under test has changed.
//
// # Flags
//
//	-simtest.seeds=N        the number of runs, whatever the test says
//	-simtest.budget=5m      the duration of the search
//	-simtest.replay=FILE    replay this run, and run no search
//	-simtest.v              a line for each run, and the logs of the server and of the controllers
//	-simtest.ask            ask the API server each time, and do not reuse its answers of other runs
//	-simtest.stuck=10s      the real time after which a run that makes no progress is reported as stuck
//
// # What it cannot do
//
// Pods run no containers. Determinism ends where the Go runtime decides at random: timers of the same instant on several
// goroutines, a select with several ready cases, the iteration of a map. A controller that
// calls os.Exit ends the test. The search is not exhaustive: a search without a failure is evidence, not proof. One run executes
// at a time in a process. The package pins its users to one Kubernetes minor, now 1.36.
//
// The package does not know how to search (internal/sim), what may go wrong (package fault) or what must hold (package
// invariant). docs/tutorial-simtest.md is a first example, docs/reference/simtest.md has all options, flags and faults, and
// docs/design/simtest.md explains how a run works. Floor: F4.
package simtest
