package report

import (
	"fmt"
	"io"

	"github.com/rehearse-k8s/rehearse/history"
)

// WriteText writes a run for a terminal: its file, the violation and its cause, the lanes, and the table of
// stale writes.
func WriteText(w io.Writer, r *Run, lanes LaneOptions) error {
	width := lanes.Width
	if width == 0 {
		width = 120
	}
	t := &table{widths: []int{max(width, 60)}, colour: lanes.Colour}
	if r.File != "" {
		t.line(Clean(r.File), dim)
	}
	if v := r.Verdict; v.Result == Failed {
		t.line(Clean(v.Invariant+": "+v.Message), red)
		t.line("cause: "+r.Cause, normal)
	}
	if r.Departs != nil {
		t.line(r.departure.String(), normal)
	}
	if t.out.Len() > 0 {
		t.out.WriteByte('\n')
	}
	if _, err := io.WriteString(w, t.out.String()); err != nil {
		return err
	}
	if err := Lanes(w, r.record, lanes); err != nil {
		return err
	}
	if r.Departs != nil {
		if err := r.other(w, width); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return WriteStale(w, r.StaleWrites, width)
}

// other shows the first step at which the nearest passing run differs.
func (r *Run) other(w io.Writer, width int) error {
	t := &table{widths: []int{max(width, 60)}}
	t.hang(fmt.Sprintf("step %d here: ", *r.Departs), Clean(stepLine(r.record, *r.Departs)), dim)
	t.hang("in the nearest passing run: ", Clean(stepLine(r.Nearest.record, r.departure.Nearest)), dim)
	_, err := io.WriteString(w, t.out.String())
	return err
}

// stepLine describes the step with a number.
func stepLine(run *history.Run, n int) string {
	if n >= len(run.Steps) {
		return "the run is over"
	}
	return newNamer(run).oneLine(&run.Steps[n])
}
