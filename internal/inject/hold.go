package inject

import (
	"cmp"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Progress is how far a run has come, as far as a [Hold] depends on it.
type Progress struct {
	// Elapsed is the time since the run began.
	Elapsed time.Duration
	// Writes is how many writes had an effect; writes of Leases and Events do not count.
	Writes int
	// Delivered returns the newest revision that a watch of a resource has delivered to the
	// actor whose request, answer or event is held.
	Delivered func(resource string) int64
}

// Hold is the time during which a fault holds a request, an answer, a stream or a client.
// It ends by a time, by a number of writes, or by an event that another watch delivers; a
// hold without any of these ends when nothing else can happen. What that means, and after
// which time even the other holds end if nothing happens, is for the run to decide: it calls
// [Hold.End].
type Hold struct {
	until    time.Duration // of the run's clock; 0: not by time
	writes   int           // the value of Progress.Writes; 0: not by writes
	resource string        // of the event; "": not by an event
	revision int64
	ended    bool
}

// NewHold begins the hold of a fault. held is the revision of what is held: with "until" and
// no revision, an event that is newer ends the hold.
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

// HoldUntil is a hold that ends at a time of the run.
func HoldUntil(t time.Duration) Hold { return Hold{until: t} }

// Over reports whether the hold has ended, and ends it if what it waits for has happened.
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

// Ended reports whether the hold was found to have ended.
func (h *Hold) Ended() bool { return h.ended }

// End ends the hold, whatever it waits for.
func (h *Hold) End() { h.ended = true }

// Until returns the time at which the hold ends; ok is false if it does not end by time.
func (h *Hold) Until() (t time.Duration, ok bool) { return h.until, h.until > 0 }
