// Package simtest rehearses Go controllers: real informers, work queues and
// managers against the real API server, in virtual time, through orders of events
// that Kubernetes may produce.
//
// [Run] takes a story (controllers, objects, what must hold) and plays it many
// times. In each run one thing happens at a time: one watch event reaches one
// controller, one request is carried out, or the clock goes on. Which one, and
// what goes wrong, is chosen, recorded, and can be repeated; what fails is made
// as short as it can be and told.
//
// The API server lives outside the bubble of testing/synctest, once in the test
// binary; each run has a world of its own in its store. The package does not know
// how to search (package sim), what may go wrong (package fault) or what must hold
// (package invariant): it is the world in which that happens.
package simtest
