package invariant

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// Happened returns an invariant that holds once the run has a step of a kind by or about an actor; an
// empty actor or resource matches all. An actor "job" also matches its replicas, such as "job/0".
func Happened(kind history.Kind, actor, resource string) Invariant {
	name := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s happened", kind, actor, resource)), " ")
	return atLeastOne(name, "no such step", func(s *history.Step) bool {
		return s.Kind == kind && isActor(actor, s.Actor) && (resource == "" || resource == s.Resource)
	})
}

// Wrote returns an invariant that holds once an actor changed an object by a request with a verb; an
// empty actor, verb or resource matches all.
func Wrote(actor, verb, resource string) Invariant {
	name := strings.Join(strings.Fields(fmt.Sprintf("%s wrote %s %s", or(actor, "any actor"), verb, resource)), " ")
	return atLeastOne(name, "no such write", func(s *history.Step) bool {
		return s.Wrote() && isActor(actor, s.Actor) && (verb == "" || verb == s.Verb) && (resource == "" || resource == s.Resource)
	})
}

func atLeastOne(name, otherwise string, is func(*history.Step) bool) Invariant {
	return Invariant{Name: name, Check: func(v View) error {
		run := v.Run()
		for i := range run.Steps {
			if is(&run.Steps[i]) {
				return nil
			}
		}
		return errors.New(otherwise)
	}}
}

// isActor reports whether a step's actor is the wanted one, or a replica or instance of it.
func isActor(want, have string) bool { return want == "" || history.IsActor(want, have) }

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// DefaultHotLoop tolerates what work queues do by design: with the default back-off, which starts at
// 5 ms, a failing key is retried 11 times in 10 s.
var DefaultHotLoop = HotLoop(50, 10*time.Second)

// HotLoop returns an invariant that is violated when a controller sends more than limit equal
// requests (same verb and object) within a window of the run's clock in which others changed nothing
// that it watches. It reads the whole record, so it is meant for the end of a run.
func HotLoop(limit int, window time.Duration) Invariant {
	name := fmt.Sprintf("no controller sends more than %d equal requests in %s while nothing changes", limit, window)
	return Invariant{Name: name, Check: func(v View) error {
		return hotLoop(v.Run(), limit, window)
	}}
}

// target is what equal requests have in common.
type target struct {
	verb, sub, query string
	history.Object
}

func hotLoop(run *history.Run, limit int, window time.Duration) error {
	type loop struct {
		watches map[string]bool
		times   map[target][]time.Duration // of the requests since the last change
	}
	loops := map[string]*loop{}
	for i := range run.Steps {
		s := &run.Steps[i]
		if s.Kind == history.Start && loops[s.Actor] == nil {
			loops[s.Actor] = &loop{watches: map[string]bool{}, times: map[target][]time.Duration{}}
		}
		if s.Kind != history.Request {
			continue
		}
		// The answer to a delete may have no revision.
		if s.Wrote() || s.Verb == "delete" && s.Revision == 0 && s.Code/100 == 2 {
			for actor, l := range loops {
				if actor != s.Actor && l.watches[s.Resource] {
					clear(l.times)
				}
			}
		}
		l := loops[s.Actor]
		if l == nil { // not a controller
			continue
		}
		if s.Verb == "watch" {
			l.watches[s.Resource] = true
		}
		t := target{verb: s.Verb, sub: s.Subresource, query: s.Query, Object: s.Object}
		t.UID = "" // a request that was rejected has none
		times := append(l.times[t], s.At)
		for len(times) > 0 && s.At-times[0] > window {
			times = times[1:]
		}
		l.times[t] = times
		if len(times) > limit {
			return fmt.Errorf("%s sent %d requests %q within %s, up to step %d, and others changed nothing that it watches",
				s.Actor, len(times), strings.TrimSpace(s.Verb+" "+s.Object.String()), s.At-times[0], s.N)
		}
	}
	return nil
}
