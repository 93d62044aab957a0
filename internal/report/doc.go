// Package report shows the record of a run: to people as lanes of belief on a terminal ([Lanes]) or as one
// HTML page (package html), with the cause of a violation in one sentence ([Cause]); to programs as JSON and
// JUnit XML. [Of] derives everything that a report says about a run.
//
// Time runs down. Next to the state of the API, with its revisions, the lanes show the state of each
// controller's caches and the requests that the controller sent, so that a reader sees what a cache had not
// observed when the controller wrote.
//
// The package reads nothing but the record and what is stored next to it: no cluster, no clock, and no network. It checks no invariants
// (package invariant) and does not decide what a run means (package verdict).
//
// Floor: F3. Imports history, fault, invariant, coverage and verdict.
package report
