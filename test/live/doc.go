// Package live tries `rehearse test` as its users meet it: examples of controllers, naive
// and right ones, are programs of their own, the search is the default one, and the naive
// are found and the right ones hold.
//
// Each test starts this test binary as rehearse, so that searches go on side by side as
// separate processes. The examples in Python have the build tag python, because not every
// machine has its module for Kubernetes (Debian's package python3-kubernetes):
//
//	go test -tags python ./test/live
//
// What it is not: a test of package live, which has its own.
package live
