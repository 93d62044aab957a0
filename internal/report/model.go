package report

import (
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
)

// APIVersion and Kind identify a report in JSON. Within a version, fields may be added; existing fields keep
// their name and meaning.
const (
	APIVersion = "rehearse-k8s.github.io/v1alpha1"
	Kind       = "Report"
)

// Report is one or more runs with everything derived from them. It is encoded as JSON for programs; the HTML
// page is drawn from it.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Runs       []*Run `json:"runs"`
}

// Run is a recorded run with everything derived from it.
type Run struct {
	File  string    `json:"file,omitempty"`
	Test  string    `json:"test,omitempty"`
	Tool  string    `json:"tool,omitempty"`
	Seed  uint64    `json:"seed"`
	Start time.Time `json:"start"`
	// Inferred: real processes ran, so what triggered a request is inferred from the order of steps.
	Inferred bool    `json:"inferred,omitempty"`
	Faults   []Fault `json:"faults,omitempty"`
	// Schedule is the schedule of a run in virtual time; absent: of several actions, the oldest was next.
	Schedule history.Schedule `json:"schedule,omitzero"`
	Verdict  Verdict          `json:"verdict"`
	// SeenOnce: the run failed, and repeating it did not reproduce the failure.
	SeenOnce bool `json:"seenOnce,omitempty"`
	// Cause explains the verdict in one sentence.
	Cause       string   `json:"cause"`
	Controllers []string `json:"controllers,omitempty"`
	Steps       []Step   `json:"steps"`
	// StaleWrites are the writes that were decided on a view older than the writer's own last write.
	StaleWrites []StaleWrite `json:"staleWrites"`
	// Nearest is the most similar passing run, and Departs the first step of this run that differs from it: of a run
	// with processes, the first one at which an actor wrote something else.
	Nearest *Run `json:"nearest,omitempty"`
	// Coverage is what the search that the run comes from covered, if it is stored with the run.
	Coverage []coverage.Row `json:"coverage,omitempty"`
	Departs  *int           `json:"departs,omitempty"`

	record    *history.Run
	departure history.Departure
}

// Fault is a fault of the run's plan.
type Fault struct {
	Text  string `json:"text"` // in the syntax of package fault
	Words string `json:"words"`
	// NoEffect says that no step of the run shows an effect of the fault.
	NoEffect bool `json:"noEffect,omitempty"`
}

// The results of a run.
const (
	Failed       = "failed"
	Passed       = "passed"
	Inconclusive = "inconclusive"
)

// Verdict is the result of a run.
type Verdict struct {
	Result string `json:"result"`
	// Of a failed run: the violated invariant, the violation, the last step before it was detected, and the
	// run's clock then. Of an inconclusive run: the reason, in Message.
	Invariant string        `json:"invariant,omitempty"`
	Message   string        `json:"message,omitempty"`
	Step      *int          `json:"step,omitempty"`
	At        time.Duration `json:"at,omitempty"`
}

// Step is a step of the record, with the state of the caches.
type Step struct {
	history.Step
	// LedToFailure: the step is among the causes of the failure.
	LedToFailure bool `json:"ledToFailure,omitempty"`
	// Delivery of the event or answer: "late", "lost", "twice"; empty: normal.
	Delivery string `json:"delivery,omitempty"`
	// Became is the effect of a write on its object: created, changed, terminating, deleted.
	Became string `json:"became,omitempty"`
	// WokenBy is the step that triggered the reconcile of a controller's request: an event, or time. It is
	// found through the answers to earlier requests.
	WokenBy *int `json:"wokenBy,omitempty"`
	// Caches are the states of the caches of the step's actor: before a request, or after an event.
	Caches []CacheState `json:"caches,omitempty"`
	// Behind is the number of writes that each controller has not observed after the step.
	Behind map[string]int `json:"behind,omitempty"`
	// Diffs are differences between states of objects, if the record contains the objects.
	Diffs []Diff `json:"diffs,omitempty"`
}

// CacheState is the state of one cache.
type CacheState struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Selector  string `json:"selector,omitempty"`
	// Reached is the revision that the cache has reached; 0: it is empty.
	Reached int64 `json:"reached"`
	// Unseen are the steps of the writes that the cache has not observed, the last 20 of them. Behind is
	// their number.
	Unseen []int `json:"unseen,omitempty"`
	Behind int   `json:"behind,omitempty"`
}

// What a Diff compares.
const (
	// DiffTruth: the object before and after a write.
	DiffTruth = "truth"
	// DiffCache: the object in a cache before and after an event.
	DiffCache = "cache"
	// DiffGap: the object in the actor's cache and in the API.
	DiffGap = "gap"
)

// Diff is the difference between two states of an object.
type Diff struct {
	Of     string         `json:"of"`
	Object history.Object `json:"object"`
	// From and To are revisions; 0: the object does not exist.
	From   int64   `json:"from,omitempty"`
	To     int64   `json:"to,omitempty"`
	Fields []Field `json:"fields,omitempty"`
	// More is the number of further fields.
	More int `json:"more,omitempty"`
}

// Field is one field that differs. Op is "+" (only after), "-" (only before) or "~" (both).
type Field struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	Was  string `json:"was,omitempty"`
	Is   string `json:"is,omitempty"`
}

// StaleWrite is a write that was decided before its writer had observed its own last write.
type StaleWrite struct {
	Step    int    `json:"step"`
	Actor   string `json:"actor"`
	Request string `json:"request"` // in the form of the lanes
	// Decided is the step at which the reconcile began, Own the earlier write, and Reached the revision of
	// the cache of Resource at that time.
	Decided  int    `json:"decided"`
	Own      int    `json:"own"`
	OwnWrite string `json:"ownWrite"`
	Resource string `json:"resource"`
	Reached  int64  `json:"reached"`
	// Accepted: the write changed an object without a precondition, neither a resource version nor a UID.
	Accepted bool   `json:"accepted"`
	Outcome  string `json:"outcome"` // a description
}
