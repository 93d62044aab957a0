package verdict

import (
	"fmt"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

const (
	// maxSteps limits the steps of a run in virtual time that does not become quiescent.
	maxSteps = 20_000
	// maxStepsAtOnce limits the steps of a run in virtual time between two pauses, in which no actor has anything to do.
	maxStepsAtOnce = 2_000
)

// Livelock describes a run that never ends.
type Livelock struct {
	Oracle, Message string
	// Test: the test itself does not end, so no controller is at fault.
	Test bool
}

// FindLivelock looks for a livelock in a run in virtual time. It returns nil if it finds none. lastPause is
// the last step before which no actor had anything to do. waiting: the test has ended, or waits until the run is quiescent, so
// the controllers are at fault.
func FindLivelock(run *history.Run, lastPause int, now time.Duration, waiting bool) *Livelock {
	n := len(run.Steps)
	switch {
	case n > maxSteps && !waiting:
		return &Livelock{Message: fmt.Sprintf("the test function has not returned after %d steps, at %s: it loops, or waits for something that no actor does", n, now), Test: true}
	case n > maxSteps:
		return &Livelock{Oracle: QuiescenceOracle, Message: fmt.Sprintf("not quiescent after %d steps in %s; %s", n, now, busiest(run, 0))}
	case n > lastPause+maxStepsAtOnce:
		return &Livelock{Oracle: QuiescenceOracle, Message: fmt.Sprintf("%d steps without a pause, until %s; %s", n-lastPause, now, busiest(run, lastPause))}
	}
	return nil
}

// busiest returns the actor with the most requests since a step.
func busiest(run *history.Run, since int) string {
	counts := map[string]int{}
	var actor string
	for n := since; n < len(run.Steps); n++ {
		if s := &run.Steps[n]; s.Kind == history.Request {
			counts[s.Actor]++
			if counts[s.Actor] > counts[actor] {
				actor = s.Actor
			}
		}
	}
	return fmt.Sprintf("%s sent %d requests", actor, counts[actor])
}
