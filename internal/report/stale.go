package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// staleWrites describes the stale own-writes of a run.
func staleWrites(run *history.Run) []StaleWrite {
	all := []StaleWrite{}
	name := newNamer(run)
	for _, w := range invariant.StaleWrites(run) {
		s, own := &run.Steps[w.Step], &run.Steps[w.Own]
		all = append(all, StaleWrite{
			Step: w.Step, Actor: w.Actor, Request: Clean(name.request(s)), Decided: w.Decided,
			Own: w.Own, OwnWrite: Clean(name.request(own)), Resource: w.Resource, Reached: w.Reached,
			Accepted: w.Accepted, Outcome: outcome(s, w.Accepted),
		})
	}
	return all
}

func outcome(s *history.Step, accepted bool) string {
	switch {
	case accepted:
		return "accepted without a precondition"
	case s.Wrote():
		return "accepted with a precondition"
	case s.Code/100 == 2:
		return "changed nothing"
	case s.Code != 0:
		return "rejected: " + strconv.Itoa(s.Code)
	}
	return "had no effect"
}

// StaleQuestion is the heading of the table of stale writes.
const StaleQuestion = "Stale own-writes"

// StaleAnswer summarizes the table of stale writes in one sentence.
func StaleAnswer(writes []StaleWrite) string {
	accepted := 0
	for _, w := range writes {
		if w.Accepted {
			accepted++
		}
	}
	switch {
	case len(writes) == 0:
		return "None in this run: each reconcile that wrote had observed the last write of its controller."
	case accepted == 0:
		return fmt.Sprintf("%s decided before the controller had observed its own last write; the API could reject each.", were(len(writes)))
	}
	return fmt.Sprintf("%s decided before the controller had observed its own last write, and %d changed an object without a precondition.", were(len(writes)), accepted)
}

func were(n int) string {
	if n == 1 {
		return "1 write was"
	}
	return fmt.Sprintf("%d writes were", n)
}

// WriteStale writes the table as text, grouped by the resource of the cache: "none" if it is empty, and at most
// maxStale rows.
func WriteStale(w io.Writer, writes []StaleWrite, width int) error {
	if width == 0 {
		width = 120
	}
	t := &table{widths: []int{max(width, 60)}}
	if len(writes) == 0 {
		t.line(StaleQuestion+": none", normal)
		_, err := io.WriteString(w, t.out.String())
		return err
	}
	t.line(StaleQuestion, normal)
	t.line(StaleAnswer(writes), normal)
	rows := slices.Clone(writes)
	slices.SortStableFunc(rows, func(a, b StaleWrite) int { return strings.Compare(a.Resource, b.Resource) })
	for n, s := range rows {
		if n == maxStale {
			t.line(fmt.Sprintf("  and %d more", len(rows)-n), normal)
			break
		}
		if n == 0 || s.Resource != rows[n-1].Resource {
			t.line("  "+Clean(s.Resource), normal)
		}
		t.hang("    ", Clean(fmt.Sprintf("step %d: %s: %s; decided at step %d with %s at %d, before it had observed its %s of step %d; %s",
			s.Step, s.Actor, s.Request, s.Decided, short(s.Resource), s.Reached, s.OwnWrite, s.Own, s.Outcome)), normal)
	}
	_, err := io.WriteString(w, t.out.String())
	return err
}

// maxStale limits the rows of the table in texts for people.
const maxStale = 50
