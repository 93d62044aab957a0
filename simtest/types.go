package simtest

import (
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// The types that the functions of this package take or return and that internal packages declare.
type (
	// Result is what a search found.
	Result = sim.Result
	// Failure is a run that violated an invariant, shrunk.
	Failure = sim.Failure
	// Tally counts the repeats of a failure.
	Tally = sim.Tally
	// Plan is the seed and the faults of one run.
	Plan = sim.Plan
	// Drift is the difference between the first run and the same plan played again after many runs.
	Drift = sim.Drift
	// Report is an observation that violates no invariant, such as a stale own-write.
	Report = sim.Report
	// KubeletOptions configure the simulated kubelet of World.Kubelet.
	KubeletOptions = stages.StageOptions
	// NodeFilter selects the nodes that a simulated kubelet manages.
	NodeFilter = stages.NodeFilter
)
