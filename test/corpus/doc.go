// Package corpus contains correct controllers in common styles, and defective ones. A search that reports a failure
// of a correct one makes a claim that a maintainer would not believe: the tests of this package search each of them
// at level legal, and every failure is a defect of rehearse.
//
// Each controller manages Deployments in place of the upstream controller: the parts of a Deployment are
// ConfigMaps. The styles differ in how they read, write, count and wait.
//
// Defects are controllers of the same kind with one known defect each: the tests compare what a failure says with the
// write that is known to be harmful or missing. Larger examples of defects are in directory examples.
//
// Floor: outside; only tests import it.
package corpus
