package verdict

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// StaleOracle names the rule that a controller violates if it writes on a view older than its own
// last write and nothing prevents the effect.
const StaleOracle = "no write is decided on a view older than the writer's own last write, unless the API can reject it"

// StaleOwnWrites finds the writes that a controller decided before its cache showed its own last write.
// reports describes each. failure, if the policy requires observed writes, is the first one that the API accepted
// without a precondition, and that has the same object as the earlier write; reports does not contain it. By
// itself such a write is no defect: a controller that applies the whole desired state, or that reads live, may
// repeat it (test/corpus).
//
// Writes of trusted actors are left out.
//
// In a record of real processes, the view of a write is inferred from the order of requests: it is reported
// and never fails a run.
func StaleOwnWrites(p Policy, run *history.Run) (failure *history.Failure, reports []string) {
	if !p.Checks(invariant.AutomaticStaleOwnWrites) {
		return nil, nil
	}
	for _, stale := range invariant.StaleWrites(run) {
		if IsTrusted(p.Trusted, stale.Actor) {
			continue
		}
		if p.RequireObservedWrites && !run.Live && failure == nil && run.Failure == nil && stale.Accepted && sameSubject(run, &run.Steps[stale.Step], &run.Steps[stale.Own]) {
			failure = &history.Failure{Oracle: StaleOracle, Message: stale.String(), Step: stale.Step, At: run.Steps[stale.Step].At}
			continue
		}
		reports = append(reports, stale.String())
	}
	return failure, reports
}

// generatedSuffix is the number of characters that the API appends to a generateName.
const generatedSuffix = 5

// sameSubject reports whether two writes have the same object, or create objects with the same generateName,
// that is, for the same owner. A controller with many owners need not have observed its writes for the
// others.
func sameSubject(run *history.Run, write, own *history.Step) bool {
	if write.Resource != own.Resource || write.Namespace != own.Namespace {
		return false
	}
	if write.Verb != "create" || len(write.Name) <= generatedSuffix {
		return write.Name == own.Name
	}
	prefix := write.Name[:len(write.Name)-generatedSuffix]
	return strings.HasPrefix(own.Name, prefix) && !ownerCreated(run, write.Namespace, prefix, own.N, write.N)
}

// ownerCreated reports whether an object whose name starts a generateName was created between two steps: then
// the later write is for a new owner with the same name.
func ownerCreated(run *history.Run, namespace, prefix string, since, until int) bool {
	for n := since + 1; n < until; n++ {
		s := &run.Steps[n]
		if s.Verb == "create" && s.Wrote() && s.Subresource == "" && s.Namespace == namespace && strings.HasPrefix(prefix, s.Name+"-") {
			return true
		}
	}
	return false
}
