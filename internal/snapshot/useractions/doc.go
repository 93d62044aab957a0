// Package useractions finds in a recording what users did, and makes a scenario of it: the objects that users own exist before
// each run, and each action of a user is a step. What controllers made is left out, because the controllers of the scenario make it
// again.
//
// A recording names the field manager of a write, but not the client of a delete. So a delete counts as a user's if it is about an
// object that a user made, and nothing else explains it: see Find.
//
// It is pure: it reads no file and sends no request. Package internal/cli/test writes the scenario and runs it.
//
// Floor: F2.
package useractions
