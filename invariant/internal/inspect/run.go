package inspect

import (
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// ReconcileStart returns the step that started the reconcile which sent a write, and the
// requests that the reconcile read from the API before the write. It follows the causes
// backwards, from answer to request. Lists and watches that precede all other requests belong
// to the informers, so the reconcile starts with what they delivered.
func ReconcileStart(run *history.Run, write int) (start int, reads []int) {
	var answers []int // of the chain, from the write backwards
	start = write
	for at := write; len(run.Steps[at].Causes) > 0; {
		start = run.Steps[at].Causes[0]
		if start >= at { // a cause must precede its step: the record is malformed
			return write, nil
		}
		at = start
		if run.Steps[at].Kind == history.Answer && len(run.Steps[at].Causes) > 0 {
			at = run.Steps[at].Causes[0]
		}
		if run.Steps[at].Kind != history.Request {
			break
		}
		answers = append(answers, start)
		reads = append(reads, at)
	}
	for n := len(reads) - 1; n >= 0; n-- {
		if verb := run.Steps[reads[n]].Verb; verb != "list" && verb != "watch" {
			break
		}
		start = answers[n]
		reads = reads[:n]
	}
	return start, reads
}

// inFlight is the longest time that a real process needs from an event on its connection to the
// request that takes the event into account: a request may wait for a processor or for the
// client's own rate limit.
const inFlight = time.Second

// DecidedAt returns the step whose view of the API a write was decided on: the step at which its
// reconcile started. In a live run that step is inferred from the order of messages, and an event
// that arrived shortly before the write may have come too late for it.
func DecidedAt(run *history.Run, write int) int {
	start, _ := ReconcileStart(run, write)
	if run.Live {
		for start > 0 && run.Steps[start].At > run.Steps[write].At-inFlight {
			start--
		}
	}
	return start
}
