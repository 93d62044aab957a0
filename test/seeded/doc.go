// Package seeded contains controllers with one seeded bug each, to measure how fast a search finds bugs that need more
// than one fault. Each is modelled on a published bug, which its comment names, and each has a correct sibling that differs
// in the few lines of the fix.
//
// A bug is reached by two or three faults, by a fault and an object of the user that is created again, or by a write that
// takes effect after its process has ended. The tests play a known plan for each bug, all proper subsets of that plan, and
// a search of the sibling. The command bench search measures the search. Each bug also has a scenario, so that bench search
// --process-budget measures rehearse test with the controllers as real processes.
//
// Each controller manages Deployments in place of the upstream controller, as an operator does with its custom
// resource: the members of a Deployment are ConfigMaps with the label "member-of".
//
// Floor: outside; only tests import it.
package seeded
