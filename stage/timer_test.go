package stage

import (
	"testing"
	"time"
)

func timerStages(drawn, timer string) string {
	return head + `spec: {resourceRef: {kind: Pod}, selector: {}, delay: {durationMilliseconds: ` + drawn + `}, next: {statusTemplate: "message: drawn"}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: timer, annotations: {rehearse-k8s.github.io/timer: "true"}}
spec: {resourceRef: {kind: Pod}, selector: {}, weight: 1000000, delay: {durationMilliseconds: ` + timer + `}, next: {statusTemplate: "reason: Timer"}}
`
}

// TestTimer: a timer takes no part in the draw and keeps nothing from happening.
func TestTimer(t *testing.T) {
	for _, c := range []struct {
		drawn, timer string
		timerFirst   bool
		due          time.Duration
	}{
		{"1000", "2000", false, time.Second},
		{"3000", "2000", true, 2 * time.Second},
		{"2000", "2000", false, 2 * time.Second},
	} {
		set := mustCompile(t, timerStages(c.drawn, c.timer))
		d := set.Decide(start, 1, newPod(), Past{}, Scene{})
		if (d.Stage == "timer") != c.timerFirst || !d.Due.Equal(start.Add(c.due)) || d.Reason.Matching == 0 {
			t.Errorf("drawn %s ms, timer %s ms: %s", c.drawn, c.timer, d.String())
		}
	}
}

// TestTimerGoesOnWhereTheRestRests: what was drawn and changes nothing does not
// hold the timer up, and two that change nothing take turns no faster than once
// a second.
func TestTimerGoesOnWhereTheRestRests(t *testing.T) {
	set := mustCompile(t, timerStages("0", "5000"))
	p := newPod()
	past := Past{Last: "s", LastAt: start, Idle: p.ResourceVersion, Played: 1}
	d := set.Decide(start, 1, p, past, Scene{})
	if d.Stage != "timer" || !d.Due.Equal(start.Add(5*time.Second)) || d.Reason.Code != TimerStage {
		t.Errorf("got %s", d.String())
	}
	past.Last, past.LastAt = "timer", start.Add(5*time.Second)
	d = set.Decide(past.LastAt, 1, p, past, Scene{})
	if d.Stage != "s" || !d.Due.Equal(past.LastAt.Add(MinRepeat)) {
		t.Errorf("got %s", d.String())
	}
}
