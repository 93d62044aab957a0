package report

import (
	"fmt"
	"slices"

	"github.com/rehearse-k8s/rehearse/history"
)

// Picture is the layout of a run in lanes, for a page to draw: one row per step, one cell per lane. In the
// gap before each cache, arrows show the deliveries.
type Picture struct {
	Lanes []Lane
	Rows  []Row
	// LeftOut is the number of steps without a row, After the number of those after the last row.
	LeftOut, After int
	// NoRoom are the controllers without lanes.
	NoRoom []string
}

// Lane is a column. A cache has a gap before it, with a number of tracks for arrows.
type Lane struct {
	Title, Actor string
	Cache        bool
	Tracks       int
}

// Row is one step.
type Row struct {
	Step  *Step
	Clock string // the run's clock; empty if it equals that of the previous row
	// Skipped is the number of steps without a row before this one.
	Skipped  int
	Violated bool // the violation was detected at this step
	Cells    []Cell
	// Nearest describes the step of the nearest passing run with the same number.
	Nearest string
	// Departs: the nearest passing run differs from here on.
	Departs bool
}

// Cell is what a lane shows about a step.
type Cell struct {
	Text string
	// Look is "", "dim", "bold", "bad" or "warn".
	Look string
	// Notes are additional lines. Wrong is the fault that took effect here.
	Notes []string
	Wrong string
	// Behind and Marks belong to the gap before a cache: the number of writes that the controller has not
	// observed after this step, and the pieces of arrows.
	Behind int
	Marks  []Mark
}

// Mark is the piece of a delivery's arrow in one row.
type Mark struct {
	Track int
	// From: the arrow begins in this row, at a write. To: it ends in this row.
	From, To bool
	// How is "" for a normal delivery, else "late", "lost" or "twice". At the end of the run, it is "held"
	// for an event that a fault still delays, and "open" for another undelivered one.
	How string
	// Description explains the arrow.
	Description string
}

const (
	stillOpen    = "open"
	stillDelayed = "held"
)

// maxControllers limits the controllers with lanes on a page.
const maxControllers = 4

// Picture returns the layout of the run with at most the given number of rows.
func (r *Run) Picture(rows int) *Picture {
	run := r.record
	steps := shown(run, 0)
	for _, around := range []int{12, 3} {
		if len(steps) > rows {
			steps = shown(run, around)
		}
	}
	if len(steps) > rows {
		steps = nearFailure(steps, run, rows)
	}
	d := &drawing{namer: newNamer(run), replay: newReplay(run)}
	p := &Picture{LeftOut: len(run.Steps) - len(steps)}
	p.lanes(d, steps)
	last, at := -1, ""
	for _, n := range steps {
		s := &run.Steps[n]
		row := Row{Step: &r.Steps[n], Skipped: n - last - 1, Violated: run.Failure != nil && run.Failure.Step == n}
		if row.Clock = clock(s.At); row.Clock == at {
			row.Clock = ""
		} else {
			at = row.Clock
		}
		last = n
		p.cells(d, r, &row, s)
		p.Rows = append(p.Rows, row)
	}
	p.After = len(run.Steps) - last - 1
	p.deliveries(d)
	r.addNearest(p)
	return p
}

// nearFailure keeps the rows that the explanation of the failure names, the first of each fault, those before
// the failure, and a few after it.
func nearFailure(steps []int, run *history.Run, rows int) []int {
	end := len(steps)
	if run.Failure != nil {
		at, _ := slices.BinarySearch(steps, run.Failure.Step)
		end = min(end, at+1+rows/8)
	}
	essential := map[int]bool{}
	for _, n := range citedSteps(run) {
		essential[n] = true
	}
	faults := map[string]bool{}
	for _, n := range steps {
		if f := run.Steps[n].Fault; f != "" && !faults[f] && len(faults) < rows/4 {
			faults[f], essential[n] = true, true
		}
	}
	var earlier []int
	begin := max(0, end-rows)
	for {
		earlier = slices.DeleteFunc(slices.Clone(steps[:begin]), func(n int) bool { return !essential[n] })
		if len(earlier)+end-begin <= rows || begin >= end {
			break
		}
		begin++
	}
	return append(earlier, steps[begin:end]...)
}

// lanes chooses the columns, as for a terminal that is wide enough.
func (p *Picture) lanes(d *drawing, steps []int) {
	// A hundred columns per pair are always enough: the page wraps lines itself.
	p.NoRoom = d.layOut(100*(2+2*maxControllers), steps)
	controllers := 0
	d.lanes = slices.DeleteFunc(d.lanes, func(l lane) bool {
		if l.kind == cacheLane {
			if controllers++; controllers > maxControllers {
				p.NoRoom = append(p.NoRoom, l.actor)
			}
		}
		return (l.kind == cacheLane || l.kind == requestLane) && controllers > maxControllers
	})
	for _, l := range d.lanes {
		title := l.title
		if l.kind == requestLane && d.run.Live {
			title += " (inferred)"
		}
		p.Lanes = append(p.Lanes, Lane{Title: clipped(title), Actor: l.actor, Cache: l.kind == cacheLane})
	}
	for i, c := range p.NoRoom {
		p.NoRoom[i] = clipped(c)
	}
	if len(p.NoRoom) > 20 {
		p.NoRoom = append(p.NoRoom[:20:20], fmt.Sprintf("%d more", len(p.NoRoom)-20))
	}
}

var looks = map[style]string{dim: "dim", bold: "bold", red: "bad", yellow: "warn"}

func (p *Picture) cells(d *drawing, r *Run, row *Row, s *history.Step) {
	if s.IsWrite() {
		d.advance(s.N) // the caches when the write was sent
	} else {
		d.advance(s.N + 1)
	}
	wrong := ""
	if s.Fault != "" {
		wrong = s.Fault
		if s.Note != "" {
			wrong += ": " + s.Note
		}
	}
	for _, l := range d.lanes {
		c := d.cell(l, s)
		cell := Cell{Text: clipped(c.text), Look: looks[c.style]}
		if l.kind == truthLane && s.Wrote() {
			cell.Notes = append(cell.Notes, "by "+clipped(s.Actor))
		}
		if l.kind == requestLane && l.actor == s.Actor && s.IsWrite() {
			cell.Notes = append(cell.Notes, d.observations(r, row.Step)...)
		}
		if wrong != "" && d.showsFault(l, s) {
			cell.Wrong, wrong = clipped(wrong), ""
		}
		row.Cells = append(row.Cells, cell)
	}
	if wrong != "" { // the actor has no lane
		row.Cells[0].Wrong = clipped(wrong)
	}
	d.advance(s.N + 1)
	for i, l := range d.lanes {
		if l.kind == cacheLane {
			row.Cells[i].Behind = d.behind(l.actor)
		}
	}
}

// showsFault reports whether a lane shows the fault of a step.
func (d *drawing) showsFault(l lane, s *history.Step) bool {
	if l.actor != s.Actor {
		return false
	}
	ofEvent := s.Kind == history.Frame || s.Kind == history.Cut || s.Kind == history.Fault && (s.Type != "" || s.Resource != "")
	switch l.kind {
	case cacheLane:
		return ofEvent
	case requestLane:
		return !ofEvent
	}
	return true
}

// observations says what a controller had observed when it sent a request, and what triggered the reconcile.
func (d *drawing) observations(r *Run, s *Step) (notes []string) {
	for _, b := range s.Caches {
		if b.Behind > 0 && b.Reached == 0 {
			notes = append(notes, fmt.Sprintf("had observed no %s, %s behind the truth", short(b.Resource), plural(b.Behind, "write")))
		} else if b.Behind > 0 {
			notes = append(notes, fmt.Sprintf("had observed %s@%d, %s behind the truth", short(b.Resource), b.Reached, plural(b.Behind, "write")))
		}
	}
	truth := int64(0)
	if s.N > 0 {
		truth = d.run.Steps[s.N-1].Truth
	}
	if len(notes) == 0 && len(s.Caches) > 0 {
		notes = append(notes, "had observed every write")
	}
	if len(notes) > 0 && truth > 0 {
		notes[len(notes)-1] += fmt.Sprintf(" (@%d)", truth)
	}
	if s.WokenBy == nil {
		return clippedAll(notes)
	}
	why := ""
	switch by := &d.run.Steps[*s.WokenBy]; by.Kind {
	case history.Frame:
		why = by.Type + " " + short(by.Resource) + " " + d.key(by.Object)
	case history.Time:
		why = "time"
	case history.Start:
		why = "its start"
	case history.Cut:
		why = "the end of a watch"
	default:
		why = by.Verb + " " + short(by.Resource)
	}
	word := "after"
	if r.Inferred {
		word = "inferred: after"
	}
	return clippedAll(append(notes, fmt.Sprintf("%s %s (step %d)", word, why, *s.WokenBy)))
}

func clippedAll(texts []string) []string {
	for i := range texts {
		texts[i] = clipped(texts[i])
	}
	return texts
}

// addNearest adds the steps of the nearest passing run, from the first different one. Of runs with processes it adds
// that one only, because the steps that follow do not correspond to each other.
func (r *Run) addNearest(p *Picture) {
	if r.Nearest == nil || r.Departs == nil {
		return
	}
	marked := false
	for i := range p.Rows {
		n := p.Rows[i].Step.N
		if n < *r.Departs {
			continue
		}
		there := n
		switch {
		case r.departure.ByWrites && marked:
			return
		case r.departure.ByWrites:
			there = r.departure.Nearest
		}
		p.Rows[i].Departs, marked = !marked, true
		p.Rows[i].Nearest = clipped(stepLine(r.Nearest.record, there))
	}
}

// oneLine describes a step without its context.
func (n namer) oneLine(s *history.Step) string {
	text := ""
	switch s.Kind {
	case history.Request:
		text = n.request(s)
	case history.Answer:
		text = "the answer of an earlier request"
	case history.Frame:
		text = "observes: " + s.Type + " " + n.object(s)
		if s.Type == "BOOKMARK" {
			text = fmt.Sprintf("observes: bookmark at %d", s.Revision)
		}
	case history.Cut:
		text = "a watch of " + short(s.Resource) + " ends"
	case history.Start:
		text = "starts"
	case history.Crash:
		text = "CRASHES"
	case history.Time:
		return "time passes, to " + clock(s.At)
	case history.Fault:
		text = s.Fault
	}
	return s.Actor + ": " + text
}
