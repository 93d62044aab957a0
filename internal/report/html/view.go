package html

import (
	"fmt"
	"html/template"
	"iter"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/report"
)

// The data of page.html.
type (
	pageView struct {
		Title, Policy         string
		Style                 template.CSS
		Script                template.JS
		Runs                  iter.Seq[runView] // one at a time, while the page is written
		RunsLeftOut, CutShort string
	}
	runView struct {
		lanesView
		Name, Result, Verdict, Observed, Cause, Facts string
		Faults                                        []string
		Stale                                         bool
		StaleTitle, StaleAnswer, StaleMore            string
		StaleRows                                     []report.StaleWrite
		Coverage                                      *coverageView
		Nearest                                       *runView
	}
	lanesView struct {
		ID             string
		Lanes          []laneView
		Pairs          string // a class for many controllers
		Columns        int
		HasNearest     bool
		Rows           []rowView
		After, LeftOut string
	}
	laneView struct{ Title, Rail, Width string }
	rowView  struct {
		ID, Class, Find, Clock, Skipped, Violated string
		N                                         int
		Cells                                     []cellView
		Departs                                   bool
		Nearest                                   string
		Detail                                    *detailView
	}
	cellView struct {
		report.Cell
		Lane, Arrived string
		Rail          bool
		Shade         int
		Behind        string
		Marks         []markView
	}
)

// viewOf returns the view of a run. id is the prefix of the element IDs of the run.
func viewOf(r *report.Run, id string, s size) runView {
	v := runView{Name: clean(r.Test, 300), Result: r.Verdict.Result, Cause: clean(r.Cause, 2000), Facts: facts(r)}
	if v.Name == "" {
		v.Name = "run"
	}
	v.Verdict = verdictOf(r)
	if r.Verdict.Result == report.Failed {
		v.Observed = "Observed: " + clean(r.Verdict.Message, 1500)
	} else {
		v.Cause = "" // the verdict already contains it
	}
	for i, f := range r.Faults {
		if i == s.facts {
			v.Faults = append(v.Faults, fmt.Sprintf("and %s more", plural(len(r.Faults)-i, "fault")))
			break
		}
		v.Faults = append(v.Faults, "Fault: "+clean(f.Words, 300))
	}
	if !r.Schedule.IsZero() {
		v.Faults = append(v.Faults, "Schedule: "+r.Schedule.String())
	}
	v.lanesView = lanesOf(r, id, s)
	v.stale(r, s)
	v.Coverage = coverageOf(r.Coverage, s)
	if r.Nearest != nil {
		near := runView{Facts: facts(r.Nearest), lanesView: lanesOf(r.Nearest, id+"n", s)}
		for i, f := range r.Nearest.Faults {
			if i == s.facts {
				break
			}
			near.Faults = append(near.Faults, "Fault: "+clean(f.Words, 300))
		}
		if !r.Nearest.Schedule.IsZero() {
			near.Faults = append(near.Faults, "Schedule: "+r.Nearest.Schedule.String())
		}
		v.Nearest = &near
	}
	return v
}

func verdictOf(r *report.Run) string {
	switch r.Verdict.Result {
	case report.Failed:
		return "Violated: " + clean(r.Verdict.Invariant, 500)
	case report.Inconclusive:
		return "Inconclusive: " + clean(r.Verdict.Message, 500)
	}
	return "Passed: no invariant was violated"
}

// facts summarizes the run in one line.
func facts(r *report.Run) string {
	parts := []string{"seed " + strconv.FormatUint(r.Seed, 10), plural(len(r.Steps), "step")}
	if n := len(r.Steps); n > 0 {
		parts = append(parts, r.Steps[n-1].At.String()+" of the run's clock")
	}
	for _, t := range []string{r.Test, r.File} {
		if t != "" {
			parts = append(parts, clean(t, 300))
		}
	}
	if r.Inferred {
		parts = append(parts, "live processes: what woke a request is inferred from the order of steps")
	}
	return strings.Join(parts, " · ")
}

func (v *runView) stale(r *report.Run, s size) {
	if len(r.Controllers) == 0 {
		return
	}
	v.Stale, v.StaleTitle, v.StaleAnswer = true, report.StaleQuestion, report.StaleAnswer(r.StaleWrites)
	for i, w := range r.StaleWrites {
		if i == s.facts {
			v.StaleMore = fmt.Sprintf("and %d more", len(r.StaleWrites)-i)
			break
		}
		w.Actor, w.Request, w.OwnWrite, w.Resource = clean(w.Actor, 100), clean(w.Request, 200), clean(w.OwnWrite, 200), clean(w.Resource, 100)
		v.StaleRows = append(v.StaleRows, w)
	}
}

func lanesOf(r *report.Run, id string, s size) lanesView {
	p := r.Picture(s.rows)
	v := lanesView{ID: id, Columns: 1 + len(p.Lanes)}
	pairs := 0
	for _, l := range p.Lanes {
		lane := laneView{Title: l.Title, Width: "requests"}
		switch {
		case l.Cache:
			lane.Rail, lane.Width = strconv.Itoa(l.Tracks), "cache"
			v.Columns++
			pairs++
		case l.Title == "user" || l.Title == "kubelet":
			lane.Width = "other"
		case l.Title == "truth" && l.Actor == "":
			lane.Width = "truth"
		}
		v.Lanes = append(v.Lanes, lane)
	}
	if pairs > 2 {
		v.Pairs = fmt.Sprintf("pairs%d", pairs)
	}
	if r.Departs != nil {
		v.HasNearest = true
		v.Columns++
	}
	for i := range p.Rows {
		v.Rows = append(v.Rows, v.row(r, p, &p.Rows[i], s))
	}
	v.After = skipped(p.After)
	if p.LeftOut > 0 {
		v.LeftOut = fmt.Sprintf("%s of %d left out", plural(p.LeftOut, "step"), len(r.Steps))
	}
	if len(p.NoRoom) > 0 {
		v.LeftOut = strings.TrimPrefix(v.LeftOut+"; no room for "+strings.Join(p.NoRoom, ", "), "; ")
	}
	return v
}

func skipped(n int) string {
	if n == 0 {
		return ""
	}
	return "⋮ " + plural(n, "step") + " left out"
}

func (v *lanesView) row(r *report.Run, p *report.Picture, row *report.Row, s size) rowView {
	out := rowView{
		ID: fmt.Sprintf("%s-%d", v.ID, row.Step.N), N: row.Step.N, Clock: row.Clock, Skipped: skipped(row.Skipped),
		Departs: row.Departs, Nearest: row.Nearest,
		Find: strings.ToLower(clean(row.Step.Actor+" "+row.Step.Object.String()+" "+row.Step.Fault, 300)),
	}
	var classes []string
	if row.Violated {
		classes = append(classes, "violated")
		out.Violated = "✗ violated after step " + strconv.Itoa(row.Step.N) + ": " + clean(r.Verdict.Invariant, 500) + ". Observed: " + clean(r.Verdict.Message, 1500)
	}
	if row.Step.LedToFailure {
		classes = append(classes, "led")
	}
	if row.Departs {
		classes = append(classes, "departs")
	}
	out.Class = strings.Join(classes, " ")
	for i, c := range row.Cells {
		cell := cellView{Cell: c, Lane: p.Lanes[i].Title, Rail: p.Lanes[i].Cache}
		if cell.Rail {
			cell.Shade = min(c.Behind, 4)
			if c.Behind > 0 {
				cell.Behind = fmt.Sprintf("%s behind the truth", plural(c.Behind, "write"))
			}
			cell.marks(c.Marks, row.Step.N)
		}
		out.Cells = append(out.Cells, cell)
	}
	if !s.causesOnly || row.Step.LedToFailure || row.Violated {
		out.Detail = detailOf(r, row.Step, s)
	}
	return out
}

// clean limits the length of a text and removes characters that could change how it is shown: html/template
// escapes markup, and clean removes control characters and direction overrides.
func clean(text string, most int) string { return report.Clean(clip(text, most)) }

// marks adds the pieces of arrows to a cell. What does not arrive in time is also described in words, for
// narrow screens and screen readers.
func (c *cellView) marks(marks []report.Mark, n int) {
	for _, m := range marks {
		c.Marks = append(c.Marks, markOf(m))
		if m.From && (m.How == "late" || m.How == "lost" || m.How == "held") && c.Arrived == "" {
			c.Arrived = m.Description
		}
	}
}
