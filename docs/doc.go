// Package docs contains no code: its tests execute the instructions of the documentation, and compare the
// results with those that the pages show.
//
// A test writes the files of a page to a new directory and runs the page's commands there, so that a reader who
// follows the page gets the same results. The tests check only these instructions, not the explanations.
package docs
