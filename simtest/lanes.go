package simtest

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// around is how many steps before and after the failure the lanes show, in addition to the steps
// that caused it.
const around = 12

// lanesOf returns the lanes of a run as text.
func lanesOf(run *history.Run) string {
	var b strings.Builder
	if err := report.Lanes(&b, run, report.LaneOptions{Around: around}); err != nil {
		return err.Error() + "\n"
	}
	return b.String()
}

// causeOf returns one sentence that explains why an invariant was violated.
func causeOf(run, nearest *history.Run) string { return report.Cause(run, nearest) }
