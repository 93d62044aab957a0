package inject

import (
	"cmp"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Progress is the state of a run on which the end of a [Hold] depends.
type Progress struct {
	// Elapsed is the time since the start of the run.
	Elapsed time.Duration
	// Writes is the number of writes that had an effect, without writes of Leases and Events.
	Writes int
	// Delivered returns the newest revision that a watch of a resource has delivered to the
	// actor whose request, answer or event is held.
	Delivered func(resource string) int64
}

// Hold is the time during which a fault holds a request, an answer, a stream or a client. It ends at a time,
// after a number of writes, or when another watch has delivered an event. A hold without any of these ends
// when nothing else can happen. The run decides when that is, and after which time the other holds end if
// nothing happens: it calls [Hold.End].
type Hold struct {
	until    time.Duration // on the run's clock; 0: not by time
	writes   int           // the value of Progress.Writes; 0: not by writes
	resource string        // of the event; "": not by an event
	revision int64
	ended    bool
}

// NewHold starts the hold of a fault. held is the revision of the held object: with "until" and no revision,
// a newer event ends the hold.
func NewHold(f fault.Fault, p Progress, held int64) Hold {
	switch {
	case f.For > 0:
		return Hold{until: p.Elapsed + f.For}
	case f.Writes > 0:
		return Hold{writes: p.Writes + f.Writes}
	case f.Until != "":
		return Hold{resource: f.Until, revision: cmp.Or(f.UntilRevision, held+1)}
	}
	return Hold{}
}

// HoldUntil returns a hold that ends at a time of the run.
func HoldUntil(t time.Duration) Hold { return Hold{until: t} }

// Over reports whether the hold has ended, and ends it if its condition is satisfied.
func (h *Hold) Over(p Progress) bool {
	switch {
	case h.ended:
	case h.until > 0:
		h.ended = p.Elapsed >= h.until
	case h.writes > 0:
		h.ended = p.Writes >= h.writes
	case h.resource != "":
		h.ended = p.Delivered(h.resource) >= h.revision
	}
	return h.ended
}

// Ended reports whether Over or End has ended the hold.
func (h *Hold) Ended() bool { return h.ended }

// End ends the hold unconditionally.
func (h *Hold) End() { h.ended = true }

// Until returns the time at which the hold ends; ok is false if it does not end at a time.
func (h *Hold) Until() (t time.Duration, ok bool) { return h.until, h.until > 0 }
