// Package viewtest provides what the tests of invariants share: a [World], which is an
// invariant.View of objects that a test lists as YAML, and a [Script], which is a World whose
// record a test writes step by step.
//
// It is not for tests of controllers: those run in package simtest, which records what really
// happens.
//
// Floor: F1. Only tests import it.
package viewtest
