package report

import (
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// shown are the steps that are drawn: all, or those near the failure, those that led
// to it, the last writes before it, faults, and writes that its actor had not seen.
func shown(run *history.Run, around int) (steps []int) {
	end := len(run.Steps) - 1
	if run.Failure != nil {
		end = max(0, min(run.Failure.Step, end))
	}
	story := verdict.Causes(run, end)
	if around > 0 && len(run.Steps) > 0 {
		p := newReplay(run)
		p.to(end)
		for _, v := range p.of(run.Steps[end].Actor) {
			for _, s := range p.unseen(v) {
				story[s.N] = true
			}
		}
		for _, n := range p.writes[max(0, len(p.writes)-around):] {
			story[n] = true
		}
	}
	for n := range run.Steps {
		wrong := n < end && run.Steps[n].Fault != ""
		if around <= 0 || wrong || story[n] || n >= end-around && n <= end+around {
			steps = append(steps, n)
		}
	}
	return steps
}
