// Package conformance compares this repository's Job controller with that of Kubernetes 1.36.3, as a black
// box: each case is a scenario in a world of package simtest, run once with each controller. The API server is
// the real one, time is the run's, and no fault is injected. The scenario plays the user and the kubelets: it
// creates Jobs, sets the status of pods, advances the time, stops the controller and starts it again; then it
// checks what the API shows.
//
// The cases follow the assertions of upstream's integration and e2e tests (test/integration/job,
// test/e2e/apps/job.go; each case contains the name). Where the two controllers differ, the case contains both
// behaviours and the reason, from which the table in docs/reference/jobs.md is generated.
//
// In addition, random Jobs whose pods finish in random ways are run with both, and the API must show the same
// in each steady state.
//
// Late events, lost answers and crashes are tested in test/jobs, not here. The package exports nothing: it
// contains only tests.
package conformance
