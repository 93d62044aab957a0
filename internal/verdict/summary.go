package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// Summary describes a failure in addition to its record.
type Summary struct {
	// Run is the shrunk failure, and Nearest the most similar passing run, or nil.
	Run, Nearest *history.Run
	// Cause explains the failure in one sentence, or is "".
	Cause string
	// FoundIn is the number of the run that found it, and Of the number of runs.
	FoundIn int
	Of      string
	// Grade describes how reliably the failure reproduces.
	Grade string
	// Needs says what the failure needs, if that is not just the faults of the run; or "".
	Needs string
	// ShrinkRuns is the number of runs that shrinking took. The sizes are those before shrinking.
	ShrinkRuns, FoundFaults, FoundSteps int
}

// String returns the lines that follow the violated invariant on a terminal: the cause, when the failure was
// found and how far it shrank, its faults and schedule, and where the nearest passing run differs.
func (s Summary) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if s.Cause != "" {
		line("cause: %s", s.Cause)
	}
	if s.Run.Failure.Switch != "" {
		line("if this is intended: %s", s.Run.Failure.Switch)
	}
	line("violated at step %d, %s after the start; found in run %d of %s, %s",
		s.Run.Failure.Step, s.Run.Failure.At.Round(time.Millisecond), s.FoundIn, s.Of, s.Grade)
	line("shrunk in %s to %s and %s; when found %s and %s", count(s.ShrinkRuns, "run"),
		count(len(s.Run.Faults), "fault"), count(len(s.Run.Steps), "step"), count(s.FoundFaults, "fault"), count(s.FoundSteps, "step"))
	for _, text := range s.Run.Faults {
		line("    %s", text)
	}
	if !s.Run.Schedule.IsZero() {
		line("    %s", s.Run.Schedule)
	}
	if s.Needs != "" {
		line("%s", s.Needs)
	}
	if s.Nearest != nil {
		if d, differs := s.Run.DepartsFrom(s.Nearest); differs {
			line("%s", d)
		}
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
