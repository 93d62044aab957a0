// Package upstream contains the failures that `rehearse test` has found in Kubernetes' own controllers, as
// replay files in testdata, and a test that reads each and compares it with the table of
// docs/reference/upstream-controllers.md.
//
// It replays nothing: that takes minutes per file, and a program that is not in this module. To replay one,
// run `rehearse replay FILE`.
//
// Outside the floors: it may import everything, and nothing imports it.
package upstream
