package html

import (
	"fmt"
	"html/template"
	"iter"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/report"
)

// What page.html is filled with.
type (
	pageView struct {
		Title, Policy         string
		Style                 template.CSS
		Script                template.JS
		Runs                  iter.Seq[runView] // laid out one after the other, as the page grows
		RunsLeftOut, CutShort string
	}
	runView struct {
		lanesView
		Name, Result, Verdict, Seen, Story, Facts string
		Faults                                    []string
		Stale                                     bool
		StaleTitle, StaleAnswer, StaleMore        string
		StaleRows                                 []report.StaleWrite
		Nearest                                   *runView
	}
	lanesView struct {
		ID             string
		Lanes          []laneView
		Pairs          string // a class for many controllers
		Columns        int
		Beside         bool
		Rows           []rowView
		After, LeftOut string
	}
	laneView struct{ Title, Rail, Width string }
	rowView  struct {
		ID, Class, Find, Clock, Skipped, Broken string
		N                                       int
		Cells                                   []cellView
		Departs                                 bool
		Nearest                                 string
		Detail                                  *detailView
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

// viewOf lays a run out. id begins the ids of all that is on the page for it.
func viewOf(r *report.Run, id string, s size) runView {
	v := runView{Name: clean(r.Test, 300), Result: r.Verdict.Result, Story: clean(r.Story, 2000), Facts: facts(r)}
	if v.Name == "" {
		v.Name = "run"
	}
	v.Verdict = verdictOf(r)
	if r.Verdict.Result == report.Failed {
		v.Seen = "Seen: " + clean(r.Verdict.Message, 1500)
	} else {
		v.Story = "" // the verdict says it
	}
	for i, f := range r.Faults {
		if i == s.facts {
			v.Faults = append(v.Faults, fmt.Sprintf("and %s more", plural(len(r.Faults)-i, "fault")))
			break
		}
		v.Faults = append(v.Faults, "Fault: "+clean(f.Words, 300))
	}
	v.lanesView = lanesOf(r, id, s)
	v.stale(r, s)
	if r.Nearest != nil {
		near := runView{Facts: facts(r.Nearest), lanesView: lanesOf(r.Nearest, id+"n", s)}
		for i, f := range r.Nearest.Faults {
			if i == s.facts {
				break
			}
			near.Faults = append(near.Faults, "Fault: "+clean(f.Words, 300))
		}
		v.Nearest = &near
	}
	return v
}

func verdictOf(r *report.Run) string {
	switch r.Verdict.Result {
	case report.Failed:
		return "Violated: " + clean(r.Verdict.Promise, 500)
	case report.Inconclusive:
		return "Inconclusive: " + clean(r.Verdict.Message, 500)
	}
	return "Passed: no invariant was violated"
}

// facts are what was run, in a line.
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
		lane := laneView{Title: l.Title, Width: "asks"}
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
		v.Beside = true
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
	if row.Broken {
		classes = append(classes, "broken")
		out.Broken = "✗ violated after step " + strconv.Itoa(row.Step.N) + ": " + clean(r.Verdict.Promise, 500) + ". Seen: " + clean(r.Verdict.Message, 1500)
	}
	if row.Step.Story {
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
	if !s.story || row.Step.Story || row.Broken {
		out.Detail = detailOf(r, row.Step, s)
	}
	return out
}

// clean is text of a bounded length that does not steer what shows it: html/template
// escapes, and this drops what would turn the direction of writing or not be seen.
func clean(text string, most int) string { return report.Clean(clip(text, most)) }

// marks are the pieces of arrows in a cell; what does not arrive in time is also said
// in words, for narrow screens and for those who cannot see it.
func (c *cellView) marks(marks []report.Mark, n int) {
	for _, m := range marks {
		c.Marks = append(c.Marks, markOf(m))
		if m.From && (m.How == "late" || m.How == "lost" || m.How == "held") && c.Arrived == "" {
			c.Arrived = m.Tell
		}
	}
}
