// Package corpus contains correct controllers in common styles. A search that reports a failure of one of them
// makes a claim that a maintainer would not believe: the tests of this package search each of them at level
// legal, and every failure is a defect of rehearse.
//
// Each controller manages Deployments in place of the upstream controller: the parts of a Deployment are
// ConfigMaps. The styles differ in how they read, write, count and wait. It contains no defective controllers:
// examples has those.
//
// Floor: outside; only tests import it.
package corpus
