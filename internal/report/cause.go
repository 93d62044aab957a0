package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// Cause explains the verdict of a run in one sentence: the state of the writer's cache and of the API when it
// sent the violating write, and the fault that delayed the cache. For a violation of what must hold at the end
// it names the object that waits, and the write of nearest, a passing run, that is missing; nearest may be nil.
func Cause(run, nearest *history.Run) string {
	switch f := run.Failure; {
	case f == nil && run.Inconclusive != "":
		return Clean("inconclusive: " + run.Inconclusive)
	case f == nil:
		return "no invariant was violated"
	case f.Step < 0 || f.Step >= len(run.Steps), f.Oracle == verdict.GrowthOracle:
		return Clean(f.Message)
	}
	t := &explainer{replay: newReplay(run), controllers: run.Controllers()}
	return Clean(t.sentence(nearest))
}

// explainer composes the sentence. It advances the replay to the step that the sentence describes.
type explainer struct {
	namer // full names, because the sentence has no context
	*replay
	controllers []string
	// readLive says that a cache was not up to date only about objects that the writer reads from the API.
	readLive bool
	// cited are the steps that the sentence names. A shortened drawing always shows them.
	cited []int
	// differs is the last write of the object whose field differs from the passing runs; nil if it is not known.
	differs *history.Step
}

// citedSteps returns the steps that the sentence about a failure names.
func citedSteps(run *history.Run) []int {
	if f := run.Failure; f == nil || f.Step < 0 || f.Step >= len(run.Steps) {
		return nil
	}
	t := &explainer{replay: newReplay(run), controllers: run.Controllers()}
	t.sentence(nil)
	return t.cited
}

// cite adds a step to those that the sentence names, and returns its number.
func (t *explainer) cite(n int) int {
	t.cited = append(t.cited, n)
	return n
}

func (t *explainer) sentence(nearest *history.Run) string {
	end := t.run.Failure.Step
	s := &t.run.Steps[end]
	if t.run.Failure.AtEnd {
		if w := t.differingWrite(nearest); w != nil {
			return t.describeWrite(w) + t.describeView(w)
		}
		t.advance(end + 1)
		if text, ok := t.describeWaiting(end, nearest); ok {
			return text
		}
		return t.describeTimeout(end)
	}
	if w := t.violatingWrite(end); w != nil {
		return t.describeWrite(w) + t.describeView(w)
	}
	t.advance(end + 1)
	if s.Wrote() {
		return t.describeWrite(s) + " and violated the invariant" + t.lastFault(s.N)
	}
	return t.describeTimeout(end)
}

// violatingWrite returns the write of a controller that violated the invariant: the step that detected the
// violation, or else the last write that led to it. It returns nil if the invariant was not satisfied in
// time.
func (t *explainer) violatingWrite(end int) *history.Step {
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

// describeWrite returns, for example, "job created pods a-2 (step 31)".
func (t *explainer) describeWrite(s *history.Step) string {
	what := s.Verb + "d"
	switch s.Verb {
	case "patch":
		what = "patched"
	case "deletecollection":
		what = "deleted all"
	}
	return fmt.Sprintf("%s %s %s (step %d)", s.Actor, what, t.object(s), t.cite(s.N))
}

// describeView compares the writer's cache with the API: when the writer decided, right after the step that
// led to the write, or else when the write was carried out.
func (t *explainer) describeView(w *history.Step) string {
	at := w.N
	if len(w.Causes) > 0 {
		at = w.Causes[0] + 1
	}
	t.advance(at)
	v, unseen := t.laggingView(w.Actor, w.Resource)
	if v == nil {
		at = w.N
		t.advance(at)
		v, unseen = t.laggingView(w.Actor, w.Resource)
	}
	if text := t.describeLateExecution(w); v == nil && text != "" {
		return text + t.lastFault(w.N)
	}
	if v == nil && t.readLive {
		return t.lastFault(w.N)
	}
	if v == nil {
		if last := t.lastFault(w.N); last != "" {
			return " although its caches were up to date" + last
		}
		return " although its caches were up to date and no fault took effect" + t.scheduled()
	}
	decided := " while"
	if at < w.N {
		decided = fmt.Sprintf(", decided after step %d%s while", t.cite(at-1), t.inferred())
	}
	because := t.delayingFault(v, unseen[0], w.N)
	if because == "" {
		because = t.lastFault(w.N)
	}
	if because == "" {
		because = t.scheduled()
	}
	return fmt.Sprintf("%s its cache of %s was %s: it had not observed %s%s",
		decided, short(v.resource), t.compareRevisions(v, at), t.describeUnseen(w.Actor, unseen), because)
}

// scheduled says that the schedule of the run may explain an order that no fault explains.
func (t *explainer) scheduled() string {
	if t.run.Schedule.IsZero() {
		return ""
	}
	return "; the schedule chose this order"
}

// describeLateExecution says which writes came between the decision of an instance and the execution of its write,
// if the instance was terminated in between; "" if it was not.
func (t *explainer) describeLateExecution(w *history.Step) string {
	end := -1
	for n := w.N - 1; end < 0 && n >= 0; n-- {
		s := &t.run.Steps[n]
		if s.Actor == w.Actor && s.Kind == history.Start {
			return ""
		}
		if s.Actor == w.Actor && s.Kind == history.Crash {
			end = n
		}
	}
	if end < 0 {
		return ""
	}
	text := fmt.Sprintf(", sent before it was terminated (step %d)", t.cite(end))
	var first *history.Step
	for n := end + 1; n < w.N; n++ {
		s := &t.run.Steps[n]
		if !s.Wrote() || s.Actor == w.Actor || history.Bookkeeping(s.Resource) {
			continue
		}
		if first == nil || first.Resource != w.Resource && s.Resource == w.Resource {
			first = s
		}
	}
	if first == nil {
		return text
	}
	return text + fmt.Sprintf(" and carried out after %s %s of %s (step %d)", possessive(first.Actor), first.Verb, t.object(first), t.cite(first.N))
}

// inferred marks what a record of processes does not show: what led a process to send a request.
func (t *explainer) inferred() string {
	if t.run.Live {
		return " (inferred)"
	}
	return ""
}

// laggingView returns a cache of an actor that has not observed all writes, and these writes. It prefers the
// cache of the written resource. The actor knows its own writes of objects that it reads from the API.
func (t *explainer) laggingView(actor, resource string) (found *view, unseen []*history.Step) {
	for _, v := range t.viewsOf(actor) {
		u := slices.DeleteFunc(t.unseen(v), func(s *history.Step) bool {
			live := s.Actor == actor && s.Resource != resource && t.reads(actor, s.Object)
			t.readLive = t.readLive || live
			return live
		})
		if len(u) == 0 || found != nil && v.resource != resource {
			continue
		}
		found, unseen = v, u
		if v.resource == resource {
			break
		}
	}
	// The actor's own writes come first, then the newest.
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

// reads reports whether an actor gets an object from the API: then its cache of that object decides nothing.
func (t *explainer) reads(actor string, o history.Object) bool {
	return slices.ContainsFunc(t.run.Steps, func(s history.Step) bool {
		return s.Kind == history.Request && s.Verb == "get" && s.Actor == actor && s.Resource == o.Resource && s.Key() == o.Key()
	})
}

// compareRevisions returns, for example, "at revision 14 and the truth at 19", before step n.
func (t *explainer) compareRevisions(v *view, n int) string {
	truth := int64(0)
	for i := range n {
		truth = max(truth, t.run.Steps[i].Truth)
	}
	if v.reached == 0 {
		return fmt.Sprintf("empty and the truth at %d", truth)
	}
	return fmt.Sprintf("at revision %d and the truth at %d", v.reached, truth)
}

// describeUnseen names the first of the writes that were not observed, and counts the others.
func (t *explainer) describeUnseen(actor string, unseen []*history.Step) string {
	s := unseen[0]
	whose := possessive(s.Actor)
	if s.Actor == actor {
		whose = "its own"
	}
	text := fmt.Sprintf("%s %s of %s (step %d)", whose, s.Verb, t.object(s), t.cite(s.N))
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

// delayingFault describes the fault that delayed a cache: the one that took effect on the event, or else one
// that took effect earlier and applies to such events.
func (t *explainer) delayingFault(v *view, write *history.Step, before int) string {
	for i := range t.run.Steps {
		s := &t.run.Steps[i]
		if s.Fault == "" || s.Actor != v.actor {
			continue
		}
		ofEvent := s.Kind == history.Frame && s.Revision == write.Revision
		ofStream := s.Kind != history.Request && s.N < before && s.N > write.N && t.mayDelay(s.Fault, v)
		if ofEvent || ofStream {
			return "; " + faultText(s.Fault)
		}
	}
	for _, text := range t.run.Faults {
		if t.tookEffect(text, before) && t.mayDelay(text, v) {
			return "; " + faultText(text)
		}
	}
	return ""
}

// tookEffect reports whether a fault of the plan took effect before a step. A plan may have faults that met nothing.
func (t *explainer) tookEffect(text string, before int) bool {
	return slices.ContainsFunc(t.run.Steps[:before], func(s history.Step) bool { return s.Fault == text })
}

// mayDelay reports whether a fault can delay or drop events of a view.
func (t *explainer) mayDelay(text string, v *view) bool {
	f, err := fault.Parse(text)
	if err != nil {
		return false
	}
	switch f.Kind {
	case fault.KindPause, fault.KindOutage, fault.KindOtherServer:
		return f.Actor == "" || f.Actor == v.actor || strings.HasPrefix(v.actor, f.Actor+"/")
	}
	if f.Kind.Class() != fault.Event {
		return false
	}
	f.Object = ""
	return f.Matches(fault.Item{Class: fault.Event, Actor: v.actor, Resource: v.resource, Type: "MODIFIED"})
}

// lastFault describes the last fault that took effect before a step.
func (t *explainer) lastFault(before int) string {
	for n := before; n >= 0; n-- {
		s := &t.run.Steps[n]
		if s.Fault != "" && n == before {
			return "; " + faultText(s.Fault)
		}
		if s.Fault != "" {
			return fmt.Sprintf("; at step %d %s", t.cite(n), faultText(s.Fault))
		}
	}
	return ""
}

// describeTimeout explains why an invariant was not satisfied in time.
func (t *explainer) describeTimeout(end int) string {
	text := "no controller wrote anything"
	last := -1
	for _, n := range t.writes {
		if s := &t.run.Steps[n]; slices.Contains(t.controllers, s.Actor) {
			last = n
		}
	}
	if last >= 0 {
		s := &t.run.Steps[last]
		text = fmt.Sprintf("the last write of a controller was %s %s of %s (step %d, %s)", possessive(s.Actor), s.Verb, t.object(s), t.cite(last), clock(s.At))
	}
	text = "until " + clock(t.run.Steps[end].At) + " " + text
	for _, actor := range t.controllers {
		if v, unseen := t.laggingView(actor, ""); v != nil {
			return text + fmt.Sprintf(", and %s cache of %s is %s: it has not observed %s%s",
				possessive(actor), short(v.resource), t.compareRevisions(v, end+1), t.describeUnseen(actor, unseen), t.delayingFault(v, unseen[0], end+1))
		}
	}
	return text + ", although all caches are up to date" + t.lastFault(end)
}
