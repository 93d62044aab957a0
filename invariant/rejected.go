package invariant

import (
	"fmt"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// maxRejected is how often a controller may repeat a write that the API rejects as invalid. A retry or two follow from a
// conflict or a stale cache; a work queue with the default back-off sends ten in ten seconds.
const maxRejected = 5

// The HTTP status codes of writes that are invalid.
const (
	badRequest       = 400
	methodNotAllowed = 405
	unprocessable    = 422
)

// NotRejectedAgain returns an invariant that is violated when a controller sends a write again and again that the API
// rejects as invalid (400, 405, 422), until the end of the run: it never sends a valid one for the same object. Denials
// (403) are left out, because a quota or a policy may change, and so are what a fault answered and what a controller sends
// while its caches are behind: it stops when they have caught up.
func NotRejectedAgain() Invariant {
	name := fmt.Sprintf("no controller repeats an invalid write more than %d times", maxRejected)
	return Invariant{Name: name, Check: func(v View) error { return rejectedAgain(v.Run()) }}
}

func rejectedAgain(run *history.Run) error {
	type write struct {
		actor string
		target
	}
	invalid := 0
	for i := range run.Steps {
		if isInvalid(&run.Steps[i]) {
			invalid++
		}
	}
	if invalid <= maxRejected {
		return nil // as in almost every run: what the caches have received does not matter
	}
	rejected := map[write]int{}
	var violated error
	t := newTracker(run)
	for i := range run.Steps {
		t.observe(i)
		s := &run.Steps[i]
		if s.Kind != history.Request || !s.IsWrite() || s.Fault != "" {
			continue
		}
		w := write{s.Actor, target{verb: s.Verb, sub: s.Subresource, Object: s.Object}}
		w.UID = "" // a rejected create has none
		switch {
		case !isInvalid(s):
			delete(rejected, w)
			continue
		case t.isBehind(s.Actor):
			continue
		}
		rejected[w]++
		if n := rejected[w]; n > maxRejected {
			violated = fmt.Errorf("%s sent %q %d times, up to step %d, and the API answered %d each time",
				s.Actor, strings.TrimSpace(s.Verb+" "+s.Object.String()), n, s.N, s.Code)
		}
	}
	for _, n := range rejected {
		if n > maxRejected {
			return violated
		}
	}
	return nil
}

// isInvalid reports whether the API rejected a write as invalid.
func isInvalid(s *history.Step) bool {
	return s.IsWrite() && (s.Code == badRequest || s.Code == methodNotAllowed || s.Code == unprocessable)
}
