package job

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// A Job may write its status freeWrites times plus once per podsPerWrite pods without waiting. After
// that, counted pods wait for CountPause, so that many pods share one write.
const (
	freeWrites   = 6
	podsPerWrite = 25
)

// writeStatus decides whether the status is written now.
func (p *plan) writeStatus() {
	p.status.Active = int32(len(p.active))
	if !p.Past.createFailed() {
		p.status.Active += int32(p.decision.Tally.Created)
	}
	p.status.Ready = ptr.To(int32(p.ready))
	p.status.Terminating = ptr.To(int32(p.terminating))
	if equality.Semantic.DeepEqual(&p.status, &p.job.Status) {
		return
	}
	if wait := p.statusPause(); wait > 0 {
		p.decision.WakeIn(wait)
		p.decision.Because("WaitsWithStatus", "the status is written in %s, with more changes at once", wait.Round(time.Millisecond))
		return
	}
	p.decision.Status = &p.status
	p.tallyHandled()
	past := &p.decision.Past
	past.StatusWrites++
	past.StatusAt = p.now
}

// statusPause returns how long the status may wait: not at all if it is urgent.
func (p *plan) statusPause() time.Duration {
	last := p.Past.StatusAt
	if last.IsZero() {
		last = p.began()
	}
	since := p.now.Sub(last)
	switch {
	case p.urgent:
		return 0
	case p.recorded+p.counted > 0 || p.indexesChanged():
		pods := int(p.job.Status.Succeeded+p.job.Status.Failed) + p.tracked
		if p.Past.StatusWrites <= freeWrites+pods/podsPerWrite {
			return 0
		}
		return p.Limits.CountPause - since
	default:
		return p.Limits.StatusPause - since
	}
}

func (p *plan) indexesChanged() bool {
	return p.status.CompletedIndexes != p.job.Status.CompletedIndexes || !ptr.Equal(p.status.FailedIndexes, p.job.Status.FailedIndexes)
}
