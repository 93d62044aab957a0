// Package fault defines the faults that a run may have: their kinds and levels, a text
// form that parses back to itself, the matching with requests and events, and keyed
// randomness.
//
// A [Fault] is one thing that goes wrong at one place of a run. With fields left empty it
// is a pattern: what a search may try.
//
// The package is pure. What a fault does to a request or event is decided by package
// internal/inject, and carried out by simtest and internal/proxy.
//
// Floor: F1. Imports history and internal/splitmix.
package fault
