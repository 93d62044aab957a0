package report

import (
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// shown returns the steps to draw. If around is 0, these are all steps. Otherwise they are the steps near the
// failure, those that led to it, the last writes before it, the faults, and the writes that the actor of the
// failure had not observed.
func shown(run *history.Run, around int) (steps []int) {
	end := len(run.Steps) - 1
	if run.Failure != nil {
		end = max(0, min(run.Failure.Step, end))
	}
	relevant := verdict.Causes(run, end)
	for _, n := range citedSteps(run) {
		relevant[n] = true
	}
	if around > 0 && len(run.Steps) > 0 {
		p := newReplay(run)
		p.advance(end)
		for _, v := range p.viewsOf(run.Steps[end].Actor) {
			for _, s := range p.unseen(v) {
				relevant[s.N] = true
			}
		}
		for _, n := range p.writes[max(0, len(p.writes)-around):] {
			relevant[n] = true
		}
	}
	for n := range run.Steps {
		wrong := n < end && run.Steps[n].Fault != ""
		if around <= 0 || wrong || relevant[n] || n >= end-around && n <= end+around {
			steps = append(steps, n)
		}
	}
	return steps
}
