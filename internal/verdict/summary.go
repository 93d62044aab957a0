package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// Summary is what a search knows about a failure besides its record.
type Summary struct {
	// Run is the shrunk failure, and Nearest the most similar passing run; nil if none is known.
	Run, Nearest *history.Run
	// Cause is one sentence on how the failure came about; "" if it is not known.
	Cause string
	// FoundIn is the number of the run that found it, of as many as Of says.
	FoundIn int
	Of      string
	// Grade says how reliably the failure reproduces.
	Grade string
	// ShrinkRuns is how many runs shrinking took; the sizes are those when the failure was found.
	ShrinkRuns, FoundFaults, FoundSteps int
}

// String returns the lines that follow the violated invariant in a terminal: the cause, when the
// failure was found and how far it shrank, its faults, and where the nearest passing run differs.
func (s Summary) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if s.Cause != "" {
		line("cause: %s", s.Cause)
	}
	line("violated at step %d, %s after the start; found in run %d of %s, %s",
		s.Run.Failure.Step, s.Run.Failure.At.Round(time.Millisecond), s.FoundIn, s.Of, s.Grade)
	line("shrunk in %s to %s and %s; when found %s and %s", count(s.ShrinkRuns, "run"),
		count(len(s.Run.Faults), "fault"), count(len(s.Run.Steps), "step"), count(s.FoundFaults, "fault"), count(s.FoundSteps, "step"))
	for _, text := range s.Run.Faults {
		line("    %s", text)
	}
	if s.Nearest != nil {
		if step, differs := history.Diverged(s.Nearest, s.Run); differs && step < len(s.Run.Steps) {
			line("the nearest passing run has the same steps up to step %d", step)
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
