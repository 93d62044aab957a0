package job

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// A Job may always write its status so often, and once more for so many pods. After
// that, what it counts waits for CountPause, so that many pods share one write.
const (
	freeWrites   = 6
	podsPerWrite = 25
)

// write decides whether the status is written now.
func (p *plan) write() {
	p.status.Active = int32(len(p.active))
	if p.Past.Batch != 1 { // the last that were to be made were not refused
		p.status.Active += int32(p.decision.Tally.Created)
	}
	p.status.Ready = ptr.To(int32(p.ready))
	p.status.Terminating = ptr.To(int32(p.terminating))
	if equality.Semantic.DeepEqual(&p.status, &p.job.Status) {
		return
	}
	if wait := p.statusPause(); wait > 0 {
		p.decision.WakeIn(wait)
		p.decision.Because("WaitsWithStatus", "the status is written in %s, to tell more at once", wait.Round(time.Millisecond))
		return
	}
	p.decision.Status = &p.status
	p.tellRecorded()
	past := &p.decision.Past
	past.StatusWrites++
	past.StatusAt = p.now
}

// statusPause is how long the status may wait: not at all when somebody waits for it.
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
		pods := int(p.job.Status.Succeeded+p.job.Status.Failed) + p.held
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
