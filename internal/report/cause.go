package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// Story says in one sentence how a run came to its verdict: what a controller
// believed and what was true when it made the write that broke the promise, and
// which fault kept the two apart.
func Story(run *history.Run) string {
	switch f := run.Failure; {
	case f == nil && run.Inconclusive != "":
		return Clean("inconclusive: " + run.Inconclusive)
	case f == nil:
		return "no invariant was violated"
	case f.Step < 0 || f.Step >= len(run.Steps):
		return Clean(f.Message)
	}
	t := &narrator{replay: newReplay(run), controllers: run.Controllers()}
	return Clean(t.sentence())
}

// narrator composes the sentence. It moves the replay to the step that the sentence is about.
type narrator struct {
	namer // whole names: a sentence stands alone
	*replay
	controllers []string
}

func (t *narrator) sentence() string {
	end := t.run.Failure.Step
	s := &t.run.Steps[end]
	if w := t.breaking(end); w != nil {
		return t.did(w) + t.why(w)
	}
	t.to(end + 1)
	if s.Wrote() {
		return t.did(s) + " and violated the invariant" + t.lastFault(s.N)
	}
	return t.stuck(end)
}

// breaking is the write of a controller that broke the promise: the step at which
// that was seen, or else the last one that led to it. A promise that was not kept in
// time was broken by no write.
func (t *narrator) breaking(end int) *history.Step {
	s := &t.run.Steps[end]
	if s.Wrote() || s.Kind == history.Time {
		if s.Kind == history.Time || !slices.Contains(t.controllers, s.Actor) {
			return nil
		}
		return s
	}
	led := verdict.Causes(t.run, end)
	for n := end; n >= 0; n-- {
		if s := &t.run.Steps[n]; led[n] && s.Wrote() && slices.Contains(t.controllers, s.Actor) {
			return s
		}
	}
	return nil
}

// did is "job created pods a-2 (step 31)".
func (t *narrator) did(s *history.Step) string {
	what := s.Verb + "d"
	switch s.Verb {
	case "patch":
		what = "patched"
	case "deletecollection":
		what = "deleted all"
	}
	return fmt.Sprintf("%s %s %s (step %d)", s.Actor, what, t.object(s), s.N)
}

// why compares what the writer believed with what was true: when it decided, right
// after the step that led to the write, or else when the write was carried out.
func (t *narrator) why(w *history.Step) string {
	at := w.N
	if len(w.Causes) > 0 {
		at = w.Causes[0] + 1
	}
	t.to(at)
	v, unseen := t.blind(w.Actor, w.Resource)
	if v == nil {
		at = w.N
		t.to(at)
		v, unseen = t.blind(w.Actor, w.Resource)
	}
	if v == nil {
		if last := t.lastFault(w.N); last != "" {
			return " although its caches were up to date" + last
		}
		return " although its caches were up to date and nothing had gone wrong"
	}
	decided := " while"
	if at < w.N {
		decided = fmt.Sprintf(", decided after step %d while", at-1)
	}
	because := t.heldBy(v, unseen[0], w.N)
	if because == "" {
		because = t.lastFault(w.N)
	}
	return fmt.Sprintf("%s its cache of %s was %s: it had not seen %s%s",
		decided, short(v.resource), t.against(v, at), t.events(w.Actor, unseen), because)
}

// blind is the cache of an actor that has not been told of everything, with what it
// was not told: of the resource that was written if there is one, else any.
func (t *narrator) blind(actor, resource string) (found *view, unseen []*history.Step) {
	for _, v := range t.of(actor) {
		u := t.unseen(v)
		if len(u) == 0 || found != nil && v.resource != resource {
			continue
		}
		found, unseen = v, u
		if v.resource == resource {
			break
		}
	}
	// What it wrote itself says most, then what is newest.
	slices.SortStableFunc(unseen, func(a, b *history.Step) int {
		if own := (a.Actor == actor); own != (b.Actor == actor) {
			if own {
				return -1
			}
			return 1
		}
		return b.N - a.N
	})
	return found, unseen
}

// against is "at revision 14 and the truth at 19", before step n.
func (t *narrator) against(v *view, n int) string {
	truth := int64(0)
	for i := range n {
		truth = max(truth, t.run.Steps[i].Truth)
	}
	if v.reached == 0 {
		return fmt.Sprintf("empty and the truth at %d", truth)
	}
	return fmt.Sprintf("at revision %d and the truth at %d", v.reached, truth)
}

// events names the first of the writes that were not seen, and counts the others.
func (t *narrator) events(actor string, unseen []*history.Step) string {
	s := unseen[0]
	whose := possessive(s.Actor)
	if s.Actor == actor {
		whose = "its own"
	}
	text := fmt.Sprintf("%s %s of %s (step %d)", whose, s.Verb, t.object(s), s.N)
	if more := len(unseen) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func possessive(name string) string {
	if strings.HasSuffix(name, "s") {
		return name + "'"
	}
	return name + "'s"
}

// heldBy names the fault that kept a cache behind: the one that acted on the event,
// or else one of the run that acts on such events.
func (t *narrator) heldBy(v *view, write *history.Step, before int) string {
	for i := range t.run.Steps {
		s := &t.run.Steps[i]
		if s.Fault == "" || s.Actor != v.actor {
			continue
		}
		ofEvent := s.Kind == history.Frame && s.Revision == write.Revision
		ofStream := s.Kind != history.Request && s.N < before && s.N > write.N && t.acts(s.Fault, v)
		if ofEvent || ofStream {
			return "; " + inWords(s.Fault)
		}
	}
	for _, text := range t.run.Faults {
		if t.acts(text, v) {
			return "; " + inWords(text)
		}
	}
	return ""
}

// acts tells whether a fault could keep events from a view.
func (t *narrator) acts(text string, v *view) bool {
	f, err := fault.Parse(text)
	if err != nil {
		return false
	}
	if f.Kind == fault.KindPause {
		return f.Actor == "" || f.Actor == v.actor || strings.HasPrefix(v.actor, f.Actor+"/")
	}
	if f.Kind.Class() != fault.Event {
		return false
	}
	f.Object = ""
	return f.Matches(fault.Item{Class: fault.Event, Actor: v.actor, Resource: v.resource, Type: "MODIFIED"})
}

// lastFault names the fault that acted last before a step.
func (t *narrator) lastFault(before int) string {
	for n := before; n >= 0; n-- {
		s := &t.run.Steps[n]
		if s.Fault != "" && n == before {
			return "; " + inWords(s.Fault)
		}
		if s.Fault != "" {
			return fmt.Sprintf("; at step %d %s", n, inWords(s.Fault))
		}
	}
	return ""
}

// stuck tells of a promise that was not kept in time.
func (t *narrator) stuck(end int) string {
	text := "no controller wrote anything"
	last := -1
	for _, n := range t.writes {
		if s := &t.run.Steps[n]; slices.Contains(t.controllers, s.Actor) {
			last = n
		}
	}
	if last >= 0 {
		s := &t.run.Steps[last]
		text = fmt.Sprintf("the last write of a controller was %s %s of %s (step %d, %s)", possessive(s.Actor), s.Verb, t.object(s), last, clock(s.At))
	}
	text = "until " + clock(t.run.Steps[end].At) + " " + text
	for _, actor := range t.controllers {
		if v, unseen := t.blind(actor, ""); v != nil {
			return text + fmt.Sprintf(", and %s cache of %s is %s: it has not seen %s%s",
				possessive(actor), short(v.resource), t.against(v, end+1), t.events(actor, unseen), t.heldBy(v, unseen[0], end+1))
		}
	}
	return text + ", although all caches are up to date" + t.lastFault(end)
}
