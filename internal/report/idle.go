package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// minIdle is the time without a request after which a controller counts as idle.
const minIdle = 5 * time.Second

// describeIdle says that a controller no longer has a reason to run at the end of a run: its caches are current, it waits
// for no answer, and it has sent nothing for a while. It returns "" if that is not certain. A timer of the controller is
// visible only when it has fired, so the text says for how long none has led to a request. The replay must be at the end.
func (t *explainer) describeIdle(actor string, end int) string {
	actor = strings.TrimRight(actor, "+")
	if !slices.Contains(t.controllers, actor) || strings.Contains(actor, "/") { // which replica leads may differ from run to run
		return ""
	}
	if v, _ := t.laggingView(actor, ""); v != nil {
		return ""
	}
	running, last, pending := false, time.Duration(-1), map[int]bool{}
	for i := range t.run.Steps[:end+1] {
		s := &t.run.Steps[i]
		if s.Actor != actor {
			continue
		}
		switch s.Kind {
		case history.Start:
			running = true
			clear(pending)
		case history.Crash:
			running = false
		case history.Answer:
			if len(s.Causes) > 0 {
				delete(pending, s.Causes[0])
			}
			last = s.At
		case history.Request:
			if s.Verb == "watch" || history.Bookkeeping(s.Resource) {
				continue
			}
			if s.Reply == "late" || s.Code == 0 && s.Reply == "" && s.Note == "" {
				pending[i] = true
			}
			last = s.At
		}
	}
	idle := max(t.run.Steps[end].At, t.run.Failure.At) - last
	if !running || len(pending) > 0 || last < 0 || idle < minIdle {
		return ""
	}
	return fmt.Sprintf("; %s caches are current, no request of it is pending, and it has sent none for %s: no event will make it run again",
		possessive(actor), clock(idle))
}

// idleController returns the controller that should have acted: the one whose write is missing, or the only one.
func (t *explainer) idleController(missing *history.Step) string {
	if missing != nil {
		return missing.Actor
	}
	only := ""
	for _, c := range t.controllers {
		c = strings.TrimRight(c, "+")
		if only != "" && c != only {
			return ""
		}
		only = c
	}
	return only
}
