package report

import (
	"fmt"
	"slices"

	"github.com/rehearse-k8s/rehearse/history"
)

// Picture is a run laid out in lanes, for a page to draw: a row for each step that is
// shown, a cell for each lane. Between the truth and each cache runs a gap, in which
// deliveries are under way.
type Picture struct {
	Lanes []Lane
	Rows  []Row
	// LeftOut is how many steps have no row, After how many of them come after the last.
	LeftOut, After int
	// NoRoom are controllers without lanes.
	NoRoom []string
}

// Lane is a column. Only caches have a gap before them, with so many tracks.
type Lane struct {
	Title, Actor string
	Cache        bool
	Tracks       int
}

// Row is one step.
type Row struct {
	Step  *Step
	Clock string // the run's clock; empty if it is that of the row before
	// Skipped is how many steps are left out before this one.
	Skipped int
	Broken  bool // the promise was seen broken here
	Cells   []Cell
	// Nearest is what the nearest run did at this step, where it is known.
	Nearest string
	// Departs says that the nearest run goes another way from here on.
	Departs bool
}

// Cell is what a step says in a lane.
type Cell struct {
	Text string
	// Look is "", "dim", "bold", "bad" or "warn".
	Look string
	// Notes are further lines; Wrong is the fault that acted here.
	Notes []string
	Wrong string
	// Behind and Marks are of the gap before a cache: how many writes the controller
	// has not been told of after this step, and what is under way.
	Behind int
	Marks  []Mark
}

// Mark is the piece of a delivery's arrow that is drawn in one row.
type Mark struct {
	Track int
	// From: it begins here, at a write. To: it ends here. Neither: it goes through.
	From, To bool
	// How is "" for a delivery as it should be, or "late", "lost", "twice"; "open" if
	// it had not been told when the run ended, "held" if a fault was the reason.
	How string
	// Tell explains the arrow.
	Tell string
}

const (
	stillOpen = "open"
	stillHeld = "held"
)

// mostControllers is how many controllers find room on a page.
const mostControllers = 4

// Picture lays the run out, in at most so many rows.
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
		row := Row{Step: &r.Steps[n], Skipped: n - last - 1, Broken: run.Failure != nil && run.Failure.Step == n}
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
	r.beside(p)
	return p
}

// nearFailure keeps the rows before the failure, and a few after it.
func nearFailure(steps []int, run *history.Run, rows int) []int {
	end := len(steps)
	if run.Failure != nil {
		at, _ := slices.BinarySearch(steps, run.Failure.Step)
		end = min(end, at+1+rows/8)
	}
	return steps[max(0, end-rows):end]
}

// lanes decides on the columns, as on a terminal that is wide enough.
func (p *Picture) lanes(d *drawing, steps []int) {
	// A hundred columns for each pair: the page breaks lines by itself.
	p.NoRoom = d.layOut(100*(2+2*mostControllers), steps)
	controllers := 0
	d.lanes = slices.DeleteFunc(d.lanes, func(l lane) bool {
		if l.kind == cacheLane {
			if controllers++; controllers > mostControllers {
				p.NoRoom = append(p.NoRoom, l.actor)
			}
		}
		return (l.kind == cacheLane || l.kind == requestLane) && controllers > mostControllers
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
		d.to(s.N) // what was believed when the write was made
	} else {
		d.to(s.N + 1)
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
			cell.Notes = append(cell.Notes, d.saw(r, row.Step)...)
		}
		if wrong != "" && d.bearsFault(l, s) {
			cell.Wrong, wrong = clipped(wrong), ""
		}
		row.Cells = append(row.Cells, cell)
	}
	if wrong != "" { // of an actor without a lane
		row.Cells[0].Wrong = clipped(wrong)
	}
	d.to(s.N + 1)
	for i, l := range d.lanes {
		if l.kind == cacheLane {
			row.Cells[i].Behind = d.behind(l.actor)
		}
	}
}

// bearsFault tells whether a fault is written in this lane.
func (d *drawing) bearsFault(l lane, s *history.Step) bool {
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

// saw says what a controller knew when it made a request, and why it made it.
func (d *drawing) saw(r *Run, s *Step) (notes []string) {
	for _, b := range s.Believes {
		if b.Behind > 0 && b.Reached == 0 {
			notes = append(notes, fmt.Sprintf("saw no %s, %s behind the truth", short(b.Resource), plural(b.Behind, "write")))
		} else if b.Behind > 0 {
			notes = append(notes, fmt.Sprintf("saw %s@%d, %s behind the truth", short(b.Resource), b.Reached, plural(b.Behind, "write")))
		}
	}
	truth := int64(0)
	if s.N > 0 {
		truth = d.run.Steps[s.N-1].Truth
	}
	if len(notes) == 0 && len(s.Believes) > 0 {
		notes = append(notes, "saw all there was")
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

// beside writes the nearest run's steps next to this one's, from where they part.
func (r *Run) beside(p *Picture) {
	if r.Nearest == nil || r.Departs == nil {
		return
	}
	near := r.Nearest.record
	name := newNamer(near)
	marked := false
	for i := range p.Rows {
		n := p.Rows[i].Step.N
		if n < *r.Departs {
			continue
		}
		if !marked {
			p.Rows[i].Departs, marked = true, true
		}
		p.Rows[i].Nearest = "the run is over"
		if n < len(near.Steps) {
			p.Rows[i].Nearest = clipped(name.inLine(&near.Steps[n]))
		}
	}
}

// inLine is a step in one line, for those who know nothing of the steps around it.
func (n namer) inLine(s *history.Step) string {
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
		return "time goes on, to " + clock(s.At)
	case history.Fault:
		text = s.Fault
	}
	return s.Actor + ": " + text
}
