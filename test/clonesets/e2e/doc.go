// Package e2e asserts what OpenKruise's end-to-end tests of CloneSet assert
// (test/e2e/apps/v1beta1/cloneset.go), on a whole cluster in one process: the real API server with conversion
// and admission policies, the real scheduler, upstream's volume controllers and garbage collector, the stage
// engine in place of kubelets, and this repository's CloneSet controller.
//
// The cases are written from what upstream's cases assert; each contains the name of upstream's. All share one
// cluster, each has its own namespace, and they run concurrently. They wait for events and never for a fixed
// time, except to assert that nothing happens.
//
// Where upstream waits ten seconds for something to be late, these tests wait two or three: nothing here is as
// slow as a real kubelet.
//
// # What is not covered
//
//	creates ImagePullJobs for new images   ImagePullJob and NodeImage are kinds of OpenKruise's
//	                                       that its daemon on the nodes carries out
//
// docs/reference/cloneset-conformance.md lists for each of upstream's cases the test and the differences. The
// package exports nothing: it contains only tests.
package e2e
