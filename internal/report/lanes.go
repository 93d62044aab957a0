package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// LaneOptions configure the drawing of lanes.
type LaneOptions struct {
	// Width is the width of the terminal in columns: 0 means 120, and the minimum is 60.
	Width int
	// Colour uses ANSI escapes.
	Colour bool
	// Around limits the steps to those within this distance of the failure (of the end, if there is no
	// failure) and those that led to it. 0 draws all steps.
	Around int
}

const (
	user    = history.User
	kubelet = "kubelet"
)

// drawing is the state while a run is drawn.
type drawing struct {
	table
	namer
	*replay
	lanes     []lane
	lastShown string // the last fault that was drawn
}

// Lanes draws a run as lanes of belief. The columns are the step and the run's clock, the user, the state of
// the API, then for each controller its caches and its requests, and the simulated kubelet. A cache is shown
// with the revision that it has reached; "(-3)" means that it has not observed three writes. The last lines
// name the violated invariant.
func Lanes(w io.Writer, run *history.Run, opt LaneOptions) error {
	width := opt.Width
	if width == 0 {
		width = 120
	}
	steps := shown(run, opt.Around)
	d := &drawing{namer: newNamer(run), replay: newReplay(run)}
	d.colour = opt.Colour
	noRoom := d.layOut(max(width, 60), steps)
	d.head()
	last, at := -1, ""
	for _, n := range steps {
		d.leftOut(n - last - 1)
		last = n
		at = d.step(n, at)
	}
	d.leftOut(len(run.Steps) - last - 1)
	if len(noRoom) > 0 {
		d.line("no room for "+strings.Join(noRoom, ", ")+"; use more columns", dim)
	}
	if n := len(run.Steps) - len(steps); n > 0 {
		d.line(fmt.Sprintf("%s of %d left out", plural(n, "step"), len(run.Steps)), dim)
	}
	d.verdict()
	_, err := io.WriteString(w, d.out.String())
	return err
}

func (d *drawing) head() {
	if d.run.Test != "" {
		d.line(Clean(d.run.Test), bold)
	}
	about := "seed " + strconv.FormatUint(d.run.Seed, 10)
	if d.single != "" {
		about += ", namespace " + Clean(d.single)
	}
	d.line(about, normal)
	for _, f := range d.run.Faults {
		words, _ := plannedFault(d.run, f)
		d.hang("fault: ", Clean(words), normal)
	}
	if !d.run.Schedule.IsZero() {
		d.hang("schedule: ", d.run.Schedule.String(), normal)
	}
	cells := []cell{{fmt.Sprintf("%*s  time", stepWidth, "step"), bold}}
	for _, l := range d.lanes {
		cells = append(cells, cell{Clean(l.title), bold})
	}
	d.row(cells)
}

// leftOut draws a line for steps that are not drawn.
func (d *drawing) leftOut(n int) {
	if n > 0 {
		d.line(fmt.Sprintf("%*s  %s left out", stepWidth, "⋮", plural(n, "step")), dim)
	}
}

// step draws one step. before is the time that was drawn last.
func (d *drawing) step(n int, before string) (at string) {
	s := &d.run.Steps[n]
	if s.IsWrite() {
		d.advance(n) // the caches when the write was sent
	} else {
		d.advance(n + 1)
	}
	at = clock(s.At)
	first := cell{fmt.Sprintf("%*d", stepWidth, n), dim}
	if at != before {
		first.text += " " + at
	}
	if d.run.Failure != nil && d.run.Failure.Step == n {
		first.style = red
	}
	wrong := ""
	if s.Fault != "" && (s.Fault != d.lastShown || s.Note != "" || s.Kind == history.Fault) {
		d.lastShown = s.Fault
		wrong = "!! " + s.Fault
		if s.Note != "" {
			wrong += ": " + s.Note
		}
	}
	if s.Kind == history.Fault {
		d.hang(fmt.Sprintf("%-*s ", d.widths[0], first.text), Clean(wrong), red)
		return at
	}
	cells := []cell{first}
	for _, l := range d.lanes {
		c := d.cell(l, s)
		c.text = Clean(c.text)
		cells = append(cells, c)
	}
	d.row(cells)
	if wrong != "" {
		d.hang(strings.Repeat(" ", d.widths[0]+1), Clean(wrong), red)
	}
	return at
}

// cell returns what a lane shows about a step.
func (d *drawing) cell(l lane, s *history.Step) cell {
	switch l.kind {
	case truthLane:
		return d.truth(s)
	case cacheLane:
		return d.cache(l.actor, s)
	case requestLane:
		return d.requests(l.actor, s)
	case bothLane:
		if s.Kind == history.Frame || s.Kind == history.Cut {
			return d.cache(l.actor, s)
		}
		c := d.requests(l.actor, s)
		if b := d.caches(l.actor).text; b != "" && c.text != "" && s.IsWrite() {
			c.text += " [" + b + "]"
		}
		return c
	case kubeletLane:
		if s.Actor == kubelet && s.Kind == history.Frame { // the state of the kubelet's cache is of no interest
			return cell{strings.ToLower(s.Type) + " " + d.key(s.Object), dim}
		}
		return d.requests(kubelet, s)
	}
	c := d.requests(user, s)
	if c.text == "" && s.Actor != "" && !d.hasLane(s.Actor) { // another user
		if c = d.requests(s.Actor, s); c.text != "" {
			c.text = s.Actor + ": " + c.text
		}
	}
	return c
}

func (d *drawing) hasLane(actor string) bool {
	return slices.ContainsFunc(d.lanes, func(l lane) bool { return l.actor == actor })
}

func (d *drawing) truth(s *history.Step) cell {
	switch {
	case s.Kind == history.Time:
		return cell{"time passes", dim}
	case s.Wrote():
		return cell{fmt.Sprintf("@%d %s %s", s.Revision, strings.TrimSpace(short(s.Resource)+" "+d.key(s.Object)), d.became(s)), normal}
	}
	return cell{}
}

// cache shows the events that a controller observes, and the state of its caches when it lists or writes.
func (d *drawing) cache(actor string, s *history.Step) cell {
	if s.Actor != actor {
		return cell{}
	}
	switch s.Kind {
	case history.Cut:
		return cell{"the watch of " + short(d.resource(s)) + " ends", yellow}
	case history.Frame:
		return d.frame(s)
	case history.Request:
		if s.Verb != "list" && !s.IsWrite() {
			return cell{}
		}
	case history.Answer:
		if d.requestOf(s).Verb != "list" {
			return cell{}
		}
	default:
		return cell{}
	}
	return d.caches(actor)
}

func (d *drawing) caches(actor string) cell {
	c := cell{}
	for _, v := range d.viewsOf(actor) {
		c.text += " " + d.viewText(v)
	}
	c.text = strings.TrimSpace(c.text)
	if strings.Contains(c.text, "(-") {
		c.style = yellow
	}
	return c
}

func (d *drawing) frame(s *history.Step) cell {
	c := cell{text: s.Type}
	switch {
	case s.Type == "ERROR":
		return cell{fmt.Sprintf("ERROR %d", s.Code), yellow}
	case s.Type == "BOOKMARK":
		c.text = "bookmark"
	default:
		c.text += " " + d.key(s.Object)
	}
	if how := delivery(s); how != "" {
		c.text += " " + strings.ToUpper(how)
		c.style = red
	}
	if v := d.streams[s.Stream]; v != nil {
		c.text += " → " + d.viewText(v)
		if c.style == normal && strings.Contains(c.text, "(-") {
			c.style = yellow
		}
	}
	return c
}

func (d *drawing) resource(s *history.Step) string {
	if v := d.streams[s.Stream]; v != nil && s.Resource == "" {
		return v.resource
	}
	return s.Resource
}

// requests shows what an actor does.
func (d *drawing) requests(actor string, s *history.Step) cell {
	if s.Actor != actor {
		return cell{}
	}
	switch s.Kind {
	case history.Start:
		return cell{"starts" + noteOf(s), bold}
	case history.Crash:
		return cell{"CRASHES" + noteOf(s), red}
	case history.Answer:
		q := *d.requestOf(s)
		q.Reply = ""
		return cell{fmt.Sprintf("answer to %d: %s", q.N, d.request(&q)), normal}
	case history.Request:
		c := cell{text: d.request(s)}
		switch {
		case s.Reply != "":
			c.style = red
		case s.Code >= 400:
			c.style = yellow
		}
		return c
	}
	return cell{}
}

// noteOf returns the note of a step, unless the fault's line contains it.
func noteOf(s *history.Step) string {
	if s.Note == "" || s.Fault != "" {
		return ""
	}
	return " " + s.Note
}

func (d *drawing) verdict() {
	switch f := d.run.Failure; {
	case f != nil:
		d.line(Clean(fmt.Sprintf("violated at step %d, %s: %s", f.Step, clock(f.At), f.Oracle)), red)
		d.line(Clean("observed: "+f.Message), normal)
	case d.run.Inconclusive != "":
		d.line(Clean("inconclusive: "+d.run.Inconclusive), yellow)
	default:
		d.line("no invariant was violated", bold)
	}
}
