// Package conformance compares our Job controller with Kubernetes 1.36.3's, as a black
// box: each case is a story in a world of package simtest, told twice, with ours and
// with upstream's. The API server is the real one, time is the run's, nothing goes
// wrong unless the story does it. The story plays the user and the kubelets by hand:
// it makes Jobs, sets the status of pods, lets time go by, stops the controller and
// starts it again; then it says what the API must show.
//
// The cases follow what upstream's integration and e2e tests assert (test/integration/job,
// test/e2e/apps/job.go; the name is in each case). Where the two controllers differ, the
// case says what each does and why, and the table in docs/reference/jobs.md is kept in
// step with that.
//
// Beside the cases, random Jobs with random fates of their pods are played with both,
// and what the API shows must be the same at each moment of rest.
//
// What goes wrong in transit (late events, lost answers, crashes) is not rehearsed here but
// in test/jobs. The package has nothing to import: it is all tests.
package conformance
