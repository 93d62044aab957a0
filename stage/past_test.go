package stage

import (
	"slices"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
)

// TestPastRemembersTheDecision checks what the next decision needs to know of this one.
func TestPastRemembersTheDecision(t *testing.T) {
	set := mustCompile(t, podStage("s", "delay: {durationMilliseconds: 5000}"))
	p := stagetest.NewPod(labelled)
	d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{})
	past := Past{Stage: "other", Since: stagetest.Start.Add(-time.Hour), Played: 4, Last: "o", Resume: Resume{Stage: "other"}}
	past.Decided(&d)
	if past.Stage != "s" || !past.Since.Equal(stagetest.Start) || past.IdleAt != "10" {
		t.Errorf("got %+v", past)
	}
	if past.Resume.Stage != "" {
		t.Error("a stage that was not resumed is still to be resumed")
	}
	if past.Played != 4 || past.Last != "o" {
		t.Error("a decision counts as a stage that was played")
	}
	past.Decided(&Decision{ResourceVersion: "11"})
	if past.Stage != "" || !past.Since.IsZero() || past.IdleAt != "11" {
		t.Errorf("no stage is chosen, but %+v", past)
	}
}

func TestPastAfterAStageWasPlayed(t *testing.T) {
	at := stagetest.Start
	d := Decision{Stage: "s", ResourceVersion: "10", idle: []string{"a"}}
	before := Past{Stage: "s", Since: at.Add(-time.Minute), Played: 3, Last: "a", LastAt: at.Add(-time.Hour), Resume: Resume{Stage: "s", Step: 1}}

	wrote := before.After(&d, at, true)
	if wrote.Played != 4 || wrote.Last != "s" || !wrote.LastAt.Equal(at) {
		t.Errorf("wrote: %+v", wrote)
	}
	if wrote.Stage != "" || wrote.Resume.Stage != "" || wrote.IdleAt != "" {
		t.Errorf("the next stage starts with what belongs to the last one: %+v", wrote)
	}
	if !wrote.Paid.Equal(at.Add(WriteEvery)) {
		t.Errorf("paid until %s", wrote.Paid)
	}

	idle := before.After(&d, at, false)
	if !idle.Paid.IsZero() {
		t.Error("a stage without a write costs a part of the budget")
	}
	if idle.IdleAt != "10" || !slices.Equal(idle.Idle, []string{"a", "s"}) {
		t.Errorf("idle at %s: %v", idle.IdleAt, idle.Idle)
	}
	if !slices.Equal(d.idle, []string{"a"}) {
		t.Errorf("the decision's own list became %v", d.idle)
	}
	for stage, want := range map[string]bool{"a": true, "s": true, "x": false} {
		if idle.idle(stage, "10") != want {
			t.Errorf("%s idle at this version: %v", stage, !want)
		}
		if idle.idle(stage, "11") {
			t.Errorf("%s is idle at a version that was never looked at", stage)
		}
	}
	if (&Past{Idle: []string{"s"}}).idle("s", "") {
		t.Error("an object without a version is known to be idle")
	}
}

// TestPastAfterTheStageWasGivenUp checks that an engine that gives up does not resume the stage, and draws again.
func TestPastAfterTheStageWasGivenUp(t *testing.T) {
	past := Past{Stage: "s", Since: stagetest.Start, Played: 3, Last: "a", LastAt: stagetest.Start, Paid: stagetest.Start, Resume: Resume{Stage: "s", Step: 2}}
	got := past.GivenUp()
	if got.Resume.Stage != "" || got.Resume.Step != 0 {
		t.Errorf("it is resumed: %+v", got.Resume)
	}
	if got.Played != 4 || got.Last != "a" || !got.Paid.Equal(stagetest.Start) {
		t.Errorf("got %+v", got)
	}
	if past.Resume.Stage != "s" || past.Played != 3 {
		t.Error("the receiver has changed")
	}
}

// TestWriteBudgetFillsAgain checks the exact times: WriteBurst writes at once, then one every WriteEvery, and after a
// pause the burst is there again.
func TestWriteBudgetFillsAgain(t *testing.T) {
	now, past := stagetest.Start, Past{}
	due := func(stage string) (time.Duration, bool) {
		d := Decision{Stage: stage, Since: now}
		at, slowed := d.dueAfter(0, past)
		return at.Sub(now), slowed
	}
	for i := range WriteBurst {
		if wait, slowed := due("s"); wait != 0 || slowed {
			t.Fatalf("write %d waits %s", i, wait)
		}
		past = past.After(&Decision{Stage: "s"}, now, true)
	}
	if wait, slowed := due("s"); wait != WriteEvery || !slowed {
		t.Errorf("the write after the burst waits %s, slowed %v", wait, slowed)
	}
	now = now.Add(3 * WriteEvery)
	for i := range 3 {
		if wait, _ := due("s"); wait != 0 {
			t.Errorf("after a pause of 3 writes, write %d waits %s", i, wait)
		}
		past = past.After(&Decision{Stage: "s"}, now, true)
	}
	if wait, slowed := due("s"); wait != WriteEvery || !slowed {
		t.Errorf("the fourth waits %s", wait)
	}
	now = now.Add(time.Hour)
	for range WriteBurst {
		past = past.After(&Decision{Stage: "s"}, now, true)
	}
	if wait, _ := due("s"); wait != WriteEvery {
		t.Errorf("a long pause allows more than one burst: the next waits %s", wait)
	}
}

// TestDelayCountsBeforeTheBudget checks that the budget and the pause between repeats never shorten a delay.
func TestDelayCountsBeforeTheBudget(t *testing.T) {
	at := stagetest.Start
	for name, c := range map[string]struct {
		past    Past
		repeats bool
		wait    time.Duration
		want    time.Duration
		slowed  bool
	}{
		"nothing before":           {Past{}, false, 0, 0, false},
		"repeat at once":           {Past{LastAt: at}, true, 0, MinRepeat, false},
		"repeat after a delay":     {Past{LastAt: at}, true, 5 * time.Second, 5 * time.Second, false},
		"another stage at once":    {Past{LastAt: at}, false, 0, 0, false},
		"budget spent":             {Past{Paid: at.Add(40 * time.Second)}, false, 0, 11 * time.Second, true},
		"budget spent, long delay": {Past{Paid: at.Add(40 * time.Second)}, false, time.Minute, time.Minute, false},
		"budget spent, repeat":     {Past{Paid: at.Add(40 * time.Second), LastAt: at}, true, 0, 11 * time.Second, true},
	} {
		d := Decision{Since: at, Reason: Reason{Repeats: c.repeats}}
		due, slowed := d.dueAfter(c.wait, c.past)
		if due.Sub(at) != c.want || slowed != c.slowed {
			t.Errorf("%s: waits %s, slowed %v; want %s, %v", name, due.Sub(at), slowed, c.want, c.slowed)
		}
	}
}
