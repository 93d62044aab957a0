package simtest

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// around is how many steps before and after the failure are shown when a run is long.
const around = 12

func lanesOf(run *history.Run) string {
	var b strings.Builder
	_ = around
	return b.String()
}

func causeOf(run *history.Run) string { return "" }
