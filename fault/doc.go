// Package fault defines the faults of a run: their kinds and levels, a text form that [Parse] reads
// back, the matching with requests and events, and keyed randomness.
//
// A [Fault] is one thing that goes wrong at one place of a run. A fault with empty fields is a
// pattern: it stands for all faults with any values of these fields, from which a search chooses.
//
// The package is pure. Package internal/inject decides what a fault does to a request or event, and
// simtest and internal/proxy carry it out.
//
// Floor: F1. Imports history and internal/splitmix.
package fault
