// Package upstream keeps the failures that `rehearse test` has found in Kubernetes' own
// controllers, as replay files in testdata, and a test that reads each and compares it with
// the table of docs/reference/upstream-controllers.md.
//
// It plays nothing: that takes minutes a file, and a program that is not of this module. To
// play one, `rehearse replay FILE`.
//
// Outside the floors: it may import everything, and nothing imports it.
package upstream
