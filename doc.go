// Package rehearse is the root of a module that tests Kubernetes controllers before they run in a real cluster. It
// contains no code; this comment is the map of the packages.
//
// Library users import these packages. They are stable as docs/reference/stability.md says:
//
//   - simtest runs Go controllers in virtual time against the real API server, and searches the orders of events and the
//     faults that Kubernetes may produce. Begin here.
//   - invariant contains what a run must satisfy: ready-made invariants, CEL expressions, and the invariants of Jobs
//     and CloneSets.
//   - fault contains the kinds of faults, their levels and their text form.
//   - cluster starts a whole cluster in this process: API server, scheduler, controllers, simulated nodes. It takes the
//     place of envtest where a test needs running pods.
//   - scenario reads and checks the YAML files of `rehearse test`.
//   - stage decides what a Stage (kwok.x-k8s.io/v1alpha1) does to an object.
//   - history is the record of one run, with its codec and hash.
//   - api/kwok, api/kruise and api/rehearse contain the Go types of the API groups, and api/crds their
//     CustomResourceDefinitions.
//
// Package simtest/kubecontrollers provides the upstream controllers as constructors for simtest; only a test that imports it
// links them. The command is cmd/rehearse.
//
// Everything else is under internal/, in layers; an import goes to a lower layer only, and internal/archtest checks this:
//
//   - F0, data: api, history.
//   - F1, pure decisions: fault, invariant, scenario, stage, internal/workload (the planners of Jobs and CloneSets).
//   - F2, machinery without a clock of its own: internal/store (objects and revisions in memory), internal/wire
//     (requests and watch frames), internal/sim (search, schedule, shrinking).
//   - F3, what talks to an API: internal/apiserver, internal/controller (the stage engine, Jobs, CloneSets), internal/proxy
//     (faults between processes and an API server), internal/report.
//   - F4, whole programs: simtest, cluster, internal/rehearsal (scenarios with real processes), internal/cli.
//
// docs/README.md lists the pages for users, CONTRIBUTING.md where each decision is made, and docs/reference/glossary.md the
// terms.
package rehearse
