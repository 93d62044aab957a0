// Package e2e asserts what OpenKruise's end-to-end tests of CloneSet assert
// (test/e2e/apps/v1beta1/cloneset.go), on a whole cluster of ours in one process: the real
// API server with conversion and admission policies, the real scheduler, upstream's
// controllers of volumes and of garbage, the stage engine in place of kubelets, and our
// CloneSet controller.
//
// The cases are written anew from what they assert; the name of upstream's is in each. All
// share one cluster, each has a namespace, and they run side by side. They wait for events,
// never for a time to be over, but where it is the assertion that nothing happens.
//
// Where upstream waits ten seconds for something to be late, two or three do: nothing here
// is as slow as a real kubelet.
//
// # What is not here
//
//	creates ImagePullJobs for new images   ImagePullJob and NodeImage are kinds of OpenKruise's
//	                                       that its daemon on the nodes answers
//
// docs/reference/cloneset-conformance.md says of each of upstream's cases where it is and
// what differs. The package has nothing to import: it is all tests.
package e2e
