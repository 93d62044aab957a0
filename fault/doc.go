// Package fault says what may go wrong: kinds of faults with their levels, a text
// form that parses back to itself, matching, and keyed randomness.
//
// A [Fault] is one thing that goes wrong at one place in a run. With fields left
// open it is a pattern: what a search may try. The package is pure; faults are
// carried out by package wire and by whoever runs the world.
package fault
