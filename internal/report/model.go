package report

import (
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// APIVersion and Kind are what a report in JSON begins with. Within a version fields
// are added and never change what they mean.
const (
	APIVersion = "rehearse-k8s.github.io/v1alpha1"
	Kind       = "Report"
)

// Report is one or more runs with all that is derived from them. Its JSON is for
// programs; the HTML page is made of it too.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Runs       []*Run `json:"runs"`
}

// Run is the record of one run, and what follows from it.
type Run struct {
	File  string    `json:"file,omitempty"`
	Test  string    `json:"test,omitempty"`
	Tool  string    `json:"tool,omitempty"`
	Seed  uint64    `json:"seed"`
	Start time.Time `json:"start"`
	// Inferred says that live processes ran: what woke a request is then a guess from
	// the order of steps.
	Inferred bool    `json:"inferred,omitempty"`
	Faults   []Fault `json:"faults,omitempty"`
	Verdict  Verdict `json:"verdict"`
	// Story is one sentence on how it came to that.
	Story       string   `json:"story"`
	Controllers []string `json:"controllers,omitempty"`
	Steps       []Step   `json:"steps"`
	// StaleWrites are the writes that were decided on a view older than the writer's
	// own last write.
	StaleWrites []StaleWrite `json:"staleWrites"`
	// Nearest is the most similar passing run, and Departs the first step of this
	// run that went another way than there.
	Nearest *Run `json:"nearest,omitempty"`
	Departs *int `json:"departs,omitempty"`

	record *history.Run
}

// Fault is what went wrong on purpose.
type Fault struct {
	Text  string `json:"text"` // as package fault writes it
	Words string `json:"words"`
}

// The results of a run.
const (
	Failed       = "failed"
	Held         = "held"
	Inconclusive = "inconclusive"
)

// Verdict is what came of a run.
type Verdict struct {
	Result string `json:"result"`
	// Of a run that failed: the promise, what was seen instead, the last step before
	// it was seen, and the run's clock then. Of an inconclusive one: why, as Message.
	Promise string        `json:"promise,omitempty"`
	Message string        `json:"message,omitempty"`
	Step    *int          `json:"step,omitempty"`
	At      time.Duration `json:"at,omitempty"`
}

// Step is a step of the record, with what was believed.
type Step struct {
	history.Step
	// Story says that the failure would not have come about without this step.
	Story bool `json:"story,omitempty"`
	// Delivery of the event or answer: "late", "lost", "twice"; empty: as it should be.
	Delivery string `json:"delivery,omitempty"`
	// Became says what a write made of its object: created, changed, terminating, deleted.
	Became string `json:"became,omitempty"`
	// WokenBy is the step that a controller's request followed from, through the answers
	// of earlier requests: the event, or the time, that began the reconcile.
	WokenBy *int `json:"wokenBy,omitempty"`
	// Believes is how far the caches of the step's actor have come: before a request,
	// after an event.
	Believes []Belief `json:"believes,omitempty"`
	// Behind is, after the step, how many writes each controller has not been told of.
	Behind map[string]int `json:"behind,omitempty"`
	// Diffs are of objects, if the record has them.
	Diffs []Diff `json:"diffs,omitempty"`
}

// Belief is how far one cache has come.
type Belief struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Selector  string `json:"selector,omitempty"`
	// Reached is the revision; 0: nothing has been told.
	Reached int64 `json:"reached"`
	// Unseen are the steps of the writes that it has not been told of, Behind their
	// number; of very many only the last are listed.
	Unseen []int `json:"unseen,omitempty"`
	Behind int   `json:"behind,omitempty"`
}

// What a Diff compares.
const (
	// DiffTruth: the object before and after a write.
	DiffTruth = "truth"
	// DiffBelief: what a cache held before an event and holds after it.
	DiffBelief = "belief"
	// DiffGap: what the actor believed of the object and what was true.
	DiffGap = "gap"
)

// Diff is how two states of an object differ.
type Diff struct {
	Of     string         `json:"of"`
	Object history.Object `json:"object"`
	// From and To are revisions; 0: there is no object.
	From   int64   `json:"from,omitempty"`
	To     int64   `json:"to,omitempty"`
	Fields []Field `json:"fields,omitempty"`
	// More is how many fields are left out.
	More int `json:"more,omitempty"`
}

// Field is one field that differs: Op is "+" (only after), "-" (only before), "~".
type Field struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	Was  string `json:"was,omitempty"`
	Is   string `json:"is,omitempty"`
}

// StaleWrite is a write that was decided before its writer had seen its own last one.
type StaleWrite struct {
	Step    int    `json:"step"`
	Actor   string `json:"actor"`
	Request string `json:"request"` // as the lanes write it
	// Decided is the step at which the reconcile began, Own the earlier write, and
	// Reached the revision of the cache of Resource then.
	Decided  int    `json:"decided"`
	Own      int    `json:"own"`
	OwnWrite string `json:"ownWrite"`
	Resource string `json:"resource"`
	Reached  int64  `json:"reached"`
	// Accepted says that nothing could have refused it: it named no revision and no
	// UID, and it changed the world.
	Accepted bool   `json:"accepted"`
	Outcome  string `json:"outcome"` // in words
}
