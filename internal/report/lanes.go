package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// LaneOptions says how lanes are drawn.
type LaneOptions struct {
	// Width of the terminal in columns; 0 is 120. Below 60 it is 60.
	Width int
	// Colour uses ANSI escapes.
	Colour bool
	// Around draws only the steps within so many of the failure (of the end, if there
	// is none) and those that led to it. 0 draws all.
	Around int
}

const (
	user    = "user"
	kubelet = "kubelet"
)

// drawing is one run being drawn.
type drawing struct {
	table
	namer
	*replay
	lanes []lane
	said  string // the fault that was written last
}

// Lanes draws a run as lanes of belief: from left to right the step and the run's
// clock, the user, the truth, then for each controller its caches (how far each has
// come; "(-3)": it has not been told of three writes) and its requests, and the
// simulated kubelet. It ends with the promise that was broken.
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
		d.left(n - last - 1)
		last = n
		at = d.step(n, at)
	}
	d.left(len(run.Steps) - last - 1)
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
		d.hang("fault: ", Clean(inWords(f)), normal)
	}
	cells := []cell{{fmt.Sprintf("%*s  time", stepWidth, "step"), bold}}
	for _, l := range d.lanes {
		cells = append(cells, cell{Clean(l.title), bold})
	}
	d.row(cells)
}

// left notes steps that are not drawn.
func (d *drawing) left(n int) {
	if n > 0 {
		d.line(fmt.Sprintf("%*s  %s left out", stepWidth, "⋮", plural(n, "step")), dim)
	}
}

// step draws one step. before is the time that was written last.
func (d *drawing) step(n int, before string) (at string) {
	s := &d.run.Steps[n]
	if s.IsWrite() {
		d.to(n) // what was believed when the write was made
	} else {
		d.to(n + 1)
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
	if s.Fault != "" && (s.Fault != d.said || s.Note != "" || s.Kind == history.Fault) {
		d.said = s.Fault
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

// cell is what a step says in a lane.
func (d *drawing) cell(l lane, s *history.Step) cell {
	switch l.kind {
	case truthLane:
		return d.truth(s)
	case cacheLane:
		return d.cache(l.actor, s)
	case requestLane:
		return d.asks(l.actor, s)
	case bothLane:
		if s.Kind == history.Frame || s.Kind == history.Cut {
			return d.cache(l.actor, s)
		}
		c := d.asks(l.actor, s)
		if b := d.believes(l.actor).text; b != "" && c.text != "" && s.IsWrite() {
			c.text += " [" + b + "]"
		}
		return c
	case kubeletLane:
		if s.Actor == kubelet && s.Kind == history.Frame { // how far its cache is, nobody asks
			return cell{strings.ToLower(s.Type) + " " + d.key(s.Object), dim}
		}
		return d.asks(kubelet, s)
	}
	c := d.asks(user, s)
	if c.text == "" && s.Actor != "" && !d.hasLane(s.Actor) { // somebody else
		if c = d.asks(s.Actor, s); c.text != "" {
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
		return cell{"time goes on", dim}
	case s.Wrote():
		return cell{fmt.Sprintf("@%d %s %s", s.Revision, strings.TrimSpace(short(s.Resource)+" "+d.key(s.Object)), d.became(s)), normal}
	}
	return cell{}
}

// cache is what a controller is told, and at its writes what it believes.
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
		if d.question(s).Verb != "list" {
			return cell{}
		}
	default:
		return cell{}
	}
	return d.believes(actor)
}

func (d *drawing) believes(actor string) cell {
	c := cell{}
	for _, v := range d.of(actor) {
		c.text += " " + d.belief(v)
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
		c.text += " → " + d.belief(v)
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

// asks is what an actor does.
func (d *drawing) asks(actor string, s *history.Step) cell {
	if s.Actor != actor {
		return cell{}
	}
	switch s.Kind {
	case history.Start:
		return cell{"starts" + noted(s), bold}
	case history.Crash:
		return cell{"CRASHES" + noted(s), red}
	case history.Answer:
		q := *d.question(s)
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

// noted is a step's note, if it is not written beside its fault.
func noted(s *history.Step) string {
	if s.Note == "" || s.Fault != "" {
		return ""
	}
	return " " + s.Note
}

func (d *drawing) verdict() {
	switch f := d.run.Failure; {
	case f != nil:
		d.line(Clean(fmt.Sprintf("violated at step %d, %s: %s", f.Step, clock(f.At), f.Oracle)), red)
		d.line(Clean("seen: "+f.Message), normal)
	case d.run.Inconclusive != "":
		d.line(Clean("inconclusive: "+d.run.Inconclusive), yellow)
	default:
		d.line("no invariant was violated", bold)
	}
}
