package stage

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/stage"
)

// shownChanges is the number of changed fields that a step shows without -o wide.
const shownChanges = 4

// printLife prints the timeline, and the tree if it has branches.
func (a *app) printLife(l *life, gap, all bool) {
	if gap {
		fmt.Fprintln(a.Out)
	}
	fmt.Fprintf(a.Out, "%s (%s)\n", title(l.object), l.file)
	for i := range l.transitions {
		b := &l.transitions[i]
		fmt.Fprintf(a.Out, "%9s  %s\n", b.At.Round(time.Millisecond), headline(b))
		if b.Problem != "" {
			fmt.Fprintf(a.Out, "%9s    cannot be played: %s\n", "", b.Problem)
			continue
		}
		printEffects(a.Out, "             ", &b.Effects, b.Before, b.After, all)
	}
	fmt.Fprintf(a.Out, "%9s  %s\n", "", l.end)
	if choice(l.branches) {
		fmt.Fprintln(a.Out, "branches:")
		printTree(a.Out, "  ", l.branches)
	}
}

func headline(b *stage.Transition) string {
	if b.Decision.Stage == "" {
		return "(a user requests deletion of the object)"
	}
	why := "the only stage that matches"
	switch b.Decision.Reason.Code {
	case stage.TimerStage:
		why = "a timer, due first"
	case stage.DrawnStage:
		why = fmt.Sprintf("drawn among %d that match, chance %s", b.Decision.Reason.Matching, percent(b.Share))
	}
	if b.Decision.Reason.Repeats {
		why += ", again"
	}
	for _, l := range b.Decision.LeftOut {
		why += "; left out: " + l.String()
	}
	return b.Decision.Stage + ": " + why
}

// printEffects prints the effects of a stage: changed fields of the object first.
func printEffects(w io.Writer, indent string, e *stage.Effects, before, after stage.Object, all bool) {
	changes := stage.Changes(before, after)
	if !all {
		changes = notable(changes)
	}
	for i, c := range changes {
		if !all && i == shownChanges {
			fmt.Fprintf(w, "%s(%d more fields; -o wide shows them)\n", indent, len(stage.Changes(before, after))-i)
			break
		}
		fmt.Fprintf(w, "%s%s\n", indent, c)
	}
	for i := range e.Requests {
		if r := &e.Requests[i]; !r.Own {
			fmt.Fprintf(w, "%s%s %s\n", indent, verb(r), strings.Trim(r.Namespace+"/"+r.Name, "/"))
		} else if r.Subresource != "" && r.Subresource != "status" && r.Subresource != "scale" {
			fmt.Fprintf(w, "%spatch of subresource %s\n", indent, r.Subresource)
		}
	}
	for _, event := range e.Events {
		fmt.Fprintf(w, "%sevent %s %s: %s\n", indent, event.Type, event.Reason, event.Message)
	}
	switch {
	case after == nil:
		fmt.Fprintf(w, "%sdeleted\n", indent)
	case e.Stage != "" && !e.Writes() && len(e.Events) == 0:
		fmt.Fprintf(w, "%schanges nothing\n", indent)
	}
}

func verb(r *stage.Request) string {
	if r.Verb == stage.VerbApply {
		return "apply of " + r.Kind.String()
	}
	return "patch of " + r.Kind.String()
}

// notable sorts changes so that the most important ones come first, and omits times of conditions and fields without a value.
func notable(all []stage.Change) []stage.Change {
	rank := func(c stage.Change) int {
		switch {
		case strings.HasSuffix(c.Path, ".phase"):
			return 0
		case strings.HasPrefix(c.Path, "metadata."):
			return 1
		case strings.HasPrefix(c.Path, "status.conditions[Ready]") && strings.HasSuffix(c.Path, ".status"):
			return 2
		case strings.HasSuffix(c.Path, "IP"), strings.HasSuffix(c.Path, ".reason"):
			return 3
		}
		return 4
	}
	out := slices.DeleteFunc(slices.Clone(all), func(c stage.Change) bool {
		return c.Before == nil && c.After == nil || strings.HasSuffix(c.Path, "Time") && strings.Contains(c.Path, "conditions[")
	})
	slices.SortStableFunc(out, func(a, b stage.Change) int { return rank(a) - rank(b) })
	return out
}

// choice reports whether there is more than one branch anywhere in the tree.
func choice(branches []stage.Branch) bool {
	return len(branches) > 1 || slices.ContainsFunc(branches, func(b stage.Branch) bool { return choice(b.Next) })
}

// printTree draws branches with the probability of each, at its fork and from the root.
func printTree(w io.Writer, indent string, branches []stage.Branch) {
	for i := range branches {
		b := &branches[i]
		mark, below := "├─ ", "│  "
		if i == len(branches)-1 {
			mark, below = "└─ ", "   "
		}
		line := fmt.Sprintf("%s %s", percent(b.Share), b.Stage())
		if b.Chance != b.Share {
			line += fmt.Sprintf(" (%s overall)", percent(b.Chance))
		}
		if d := span(b.Least, b.Most); d != "" {
			line += " after " + d
		}
		fmt.Fprintln(w, indent+mark+line+ending(b))
		printTree(w, indent+below, b.Next)
	}
}

func ending(b *stage.Branch) string {
	switch {
	case b.Problem != "":
		return ": " + b.Problem
	case b.Again:
		return ", and the object returns to an earlier state"
	case b.Cut:
		return ", and further stages"
	case b.After == nil:
		return ", the object is deleted"
	case len(b.Next) == 0:
		return ", no further stage"
	}
	return ""
}

func percent(share float64) string {
	switch {
	case share > 0 && share < 0.001:
		return "<0.1%"
	case share*100 == float64(int(share*100)):
		return fmt.Sprintf("%d%%", int(share*100))
	}
	return fmt.Sprintf("%.1f%%", share*100)
}

// span is a delay as text, empty for none.
func span(least, most time.Duration) string {
	round := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	switch {
	case most == 0 && least == 0:
		return ""
	case most <= least:
		return round(least)
	}
	return round(least) + " to " + round(most)
}

// title is the kind and name of an object.
func title(o stage.Object) string {
	return stage.KindOf(o).String() + " " + strings.Trim(o.GetNamespace()+"/"+o.GetName(), "/")
}

func listed(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
