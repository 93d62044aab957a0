package stage

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/stage"
)

// printExplanation prints an explanation as text.
func (a *app) printExplanation(e *explanation, all bool) {
	fmt.Fprintln(a.Out, title(e.object))
	for _, note := range e.notes {
		fmt.Fprintf(a.Out, "  note: %s\n", note)
	}
	if len(e.options) == 0 {
		fmt.Fprintln(a.Out, "  no stage matches: nothing happens until the object changes")
	}
	for i := range e.options {
		a.printOption(e, i, all)
	}
	if len(e.others) == 0 {
		return
	}
	fmt.Fprintln(a.Out, "  stages that do not match:")
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	for _, one := range e.others {
		fmt.Fprintf(w, "    %s\t%s\n", one.Stage, mismatch(one))
	}
	_ = w.Flush()
}

func (a *app) printOption(e *explanation, i int, all bool) {
	o := &e.options[i]
	why := "the only stage that matches"
	switch {
	case o.Timer:
		why = fmt.Sprintf("a timer, played if it is due first, chance %s", percent(o.Share))
	case len(e.options) > 1 && (o.Idle || o.Held):
		why = fmt.Sprintf("one of %d that match, left out of the draw: ", len(e.options)) + excluded(o)
	case len(e.options) > 1:
		why = fmt.Sprintf("one of %d that match, chance %s (weight %d)", len(e.options), percent(o.Share), o.Weight)
	}
	fmt.Fprintf(a.Out, "  %s: %s\n", o.Stage, why)
	fmt.Fprintf(a.Out, "    since %s (%s ago)\n", e.since.UTC().Format(time.RFC3339), duration.HumanDuration(e.now.Sub(e.since)))
	fmt.Fprintf(a.Out, "    %s\n", e.due(o))
	if e.troubles[i] != "" {
		fmt.Fprintf(a.Out, "    problem: %s\n", e.troubles[i])
	}
	if d := o.Decision(); !d.Chosen() {
		return
	}
	fmt.Fprintln(a.Out, "    does:")
	printEffects(a.Out, "      ", &e.outcomes[i].Effects, e.object, e.outcomes[i].After, all)
	switch {
	case e.outcomes[i].After == nil:
	case len(e.then[i]) == 0:
		fmt.Fprintln(a.Out, "    then: no stage matches")
	default:
		var then []string
		for n := range e.then[i] {
			next := &e.then[i][n]
			text := next.Stage
			if len(e.then[i]) > 1 {
				text += " (" + percent(next.Share) + ")"
			}
			if d := span(next.Least, next.Most); d != "" {
				text += " after " + d
			}
			then = append(then, text)
		}
		fmt.Fprintf(a.Out, "    then: %s\n", strings.Join(then, " or "))
	}
}

// excluded is the reason why a stage that matches is never chosen.
func excluded(o *stage.Option) string {
	if o.Idle {
		return "it would change nothing"
	}
	return "its delay cannot be read"
}

// due is the text of when a stage is played.
func (e *explanation) due(o *stage.Option) string {
	earliest, latest := e.since.Add(o.Least), e.since.Add(o.Most)
	switch {
	case o.Held || o.Idle:
		return "due: never, until the object changes"
	case !latest.After(e.now):
		return "due: now" + delayed(o)
	case o.Least == o.Most:
		return fmt.Sprintf("due: %s (in %s)%s", earliest.UTC().Format(time.RFC3339), duration.HumanDuration(earliest.Sub(e.now)), delayed(o))
	}
	return fmt.Sprintf("due: between %s and %s%s", earliest.UTC().Format(time.RFC3339), latest.UTC().Format(time.RFC3339), delayed(o))
}

func delayed(o *stage.Option) string {
	if d := span(o.Least, o.Most); d != "" {
		return ", its delay is " + d
	}
	return ""
}

func mismatch(one stage.Explanation) string {
	text := one.Because
	if one.Got != "" {
		text += " does not match: the object has " + one.Got
	}
	if one.Problem != "" {
		text += " (" + one.Problem + ")"
	}
	return text
}

// explained is the output of `stage explain -o json`.
type explained struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Object     explainedObject  `json:"object"`
	Now        time.Time        `json:"now"`
	Since      time.Time        `json:"since"`
	Notes      []string         `json:"notes,omitempty"`
	Matching   []explainedStage `json:"matching"`
	Others     []explainedOther `json:"others"`
}

type explainedObject struct {
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

// explainedStage is a stage that may be next. Latest equals Earliest if the delay is not random.
type explainedStage struct {
	playStage
	Held     bool            `json:"held,omitempty"`
	Idle     bool            `json:"idle,omitempty"`
	Earliest time.Time       `json:"earliest"`
	Latest   time.Time       `json:"latest"`
	Changes  []stage.Change  `json:"changes"`
	Gone     bool            `json:"gone,omitempty"`
	Then     []explainedNext `json:"then"`
}

// explainedNext is a stage that may follow.
type explainedNext struct {
	Stage string          `json:"stage"`
	Share float64         `json:"share"`
	Delay []time.Duration `json:"delay"`
}

// explainedOther is a stage that does not match, and why.
type explainedOther struct {
	Stage   string `json:"stage"`
	Because string `json:"because"`
	Got     string `json:"got,omitempty"`
	Problem string `json:"problem,omitempty"`
}

func (e *explanation) machine() explained {
	o := e.object
	kind := stage.KindOf(o)
	out := explained{
		APIVersion: console.APIVersion, Kind: "StageExplanation", Now: e.now.UTC(), Since: e.since.UTC(), Notes: e.notes,
		Object: explainedObject{
			APIVersion: kind.APIVersion, Kind: kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName(),
			UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(),
		},
		Matching: []explainedStage{}, Others: []explainedOther{},
	}
	for i := range e.options {
		option, outcome := &e.options[i], &e.outcomes[i]
		s := explainedStage{
			playStage: stageOf(option, &outcome.Effects, e.troubles[i]), Held: option.Held, Idle: option.Idle,
			Earliest: e.since.Add(option.Least).UTC(), Latest: e.since.Add(option.Most).UTC(),
			Changes: stage.Changes(o, outcome.After), Gone: outcome.After == nil, Then: []explainedNext{},
		}
		for n := range e.then[i] {
			next := &e.then[i][n]
			s.Then = append(s.Then, explainedNext{Stage: next.Stage, Share: next.Share, Delay: delayOf(next)})
		}
		out.Matching = append(out.Matching, s)
	}
	for _, one := range e.others {
		out.Others = append(out.Others, explainedOther{Stage: one.Stage, Because: one.Because, Got: one.Got, Problem: one.Problem})
	}
	return out
}
