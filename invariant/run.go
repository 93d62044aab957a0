package invariant

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// Happened holds once a step of a kind was made by, or befell, an actor; an empty
// actor or resource is any. A name with replicas, "job", is "job/0" too.
func Happened(kind history.Kind, actor, resource string) Invariant {
	name := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s happened", kind, actor, resource)), " ")
	return atLeastOne(name, "no such step", func(s *history.Step) bool {
		return s.Kind == kind && isActor(actor, s.Actor) && (resource == "" || resource == s.Resource)
	})
}

// Wrote holds once an actor changed the world by a request of a verb; an empty
// actor, verb or resource is any.
func Wrote(actor, verb, resource string) Invariant {
	name := strings.Join(strings.Fields(fmt.Sprintf("%s wrote %s %s", or(actor, "somebody"), verb, resource)), " ")
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

// isActor tells whether a step's actor is the one that is meant, or a replica of it.
func isActor(want, have string) bool {
	return want == "" || want == have || strings.HasPrefix(have, want+"/")
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// DefaultHotLoop allows for what work queues do by themselves: with the usual back-off
// from 5 ms a key that fails is tried 11 times in 10 s.
var DefaultHotLoop = HotLoop(50, 10*time.Second)

// HotLoop holds while no controller makes more than limit like requests (one verb,
// one object) within a window of the run's clock in which nothing that it watches was
// changed by others. It reads the whole record, so it is a promise to be judged at
// the end of a run.
func HotLoop(limit int, window time.Duration) Invariant {
	name := fmt.Sprintf("no controller makes more than %d like requests in %s without news", limit, window)
	return Invariant{Name: name, Check: func(v View) error {
		return hotLoop(v.Run(), limit, window)
	}}
}

// target is what like requests have in common.
type target struct {
	verb, sub, query string
	history.Object
}

func hotLoop(run *history.Run, limit int, window time.Duration) error {
	type loop struct {
		watches map[string]bool
		times   map[target][]time.Duration // of the requests since the last news
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
		if s.Wrote() {
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
		t.UID = "" // a request that was refused has none
		times := append(l.times[t], s.At)
		for len(times) > 0 && s.At-times[0] > window {
			times = times[1:]
		}
		l.times[t] = times
		if len(times) > limit {
			return fmt.Errorf("%s made %d requests like %q within %s, up to step %d, and nothing it watches was changed by others",
				s.Actor, len(times), strings.TrimSpace(s.Verb+" "+s.Object.String()), s.At-times[0], s.N)
		}
	}
	return nil
}
