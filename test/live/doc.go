// Package live tests `rehearse test` as its users run it: examples of controllers, naive and correct ones, are
// separate programs, the search is the default one, and it must find the defects of the naive ones and none in
// the correct ones.
//
// Each test starts this test binary as rehearse, so that searches run concurrently as separate processes. The
// examples in Python have the build tag python, because not every machine has its module for Kubernetes
// (Debian's package python3-kubernetes):
//
//	go test -tags python ./test/live
//
// It does not test package internal/rehearsal, which has its own tests.
package live
