package simtest

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// around is how many steps before and after the failure are shown of a long run,
// beside those that led to it.
const around = 12

// lanesOf draws a run as text.
func lanesOf(run *history.Run) string {
	var b strings.Builder
	if err := report.Lanes(&b, run, report.LaneOptions{Around: around}); err != nil {
		return err.Error() + "\n"
	}
	return b.String()
}

// causeOf is one sentence on why a promise was broken.
func causeOf(run *history.Run) string { return report.Story(run) }
