package stage

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
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

// TestTimer checks that a timer does not take part in the draw and blocks no other stage.
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
		d := set.Decide(stagetest.Start, 1, stagetest.NewPod(), Past{}, Scene{})
		if (d.Stage == "timer") != c.timerFirst || !d.Due.Equal(stagetest.Start.Add(c.due)) || d.Reason.Matching == 0 {
			t.Errorf("drawn %s ms, timer %s ms: %s", c.drawn, c.timer, d.String())
		}
	}
}

// TestTimerGoesOnWhereTheRestRests checks that a drawn stage that changes nothing does not delay
// the timer, and that two such stages do not alternate.
func TestTimerGoesOnWhereTheRestRests(t *testing.T) {
	set := mustCompile(t, timerStages("0", "5000"))
	p := stagetest.NewPod()
	past := Past{Last: "s", LastAt: stagetest.Start, IdleAt: p.ResourceVersion, Idle: []string{"s"}, Played: 1}
	d := set.Decide(stagetest.Start, 1, p, past, Scene{})
	if d.Stage != "timer" || !d.Due.Equal(stagetest.Start.Add(5*time.Second)) || d.Reason.Code != TimerStage {
		t.Errorf("got %s", d.String())
	}
	for _, o := range set.Options(stagetest.Start, 1, p, past, Scene{}) {
		if want := map[string]float64{"s": 0, "timer": 1}[o.Stage]; o.Share != want {
			t.Errorf("%s has a share of %.2f, want %.2f", o.Stage, o.Share, want)
		}
	}
	past = past.After(&d, d.Due, false)
	if d = set.Decide(past.LastAt, 1, p, past, Scene{}); d.Chosen() || d.Reason.Code != NothingToDo {
		t.Errorf("got %s", d.String())
	}
}

// timed returns a stage for every pod.
func timed(name string, timer bool, weight, least, most int) string {
	annotations := ""
	if timer {
		annotations = `, annotations: {rehearse-k8s.github.io/timer: "true"}`
	}
	return fmt.Sprintf(`---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: %s%s}
spec: {resourceRef: {kind: Pod}, selector: {}, weight: %d, delay: {durationMilliseconds: %d, jitterDurationMilliseconds: %d}, next: {delete: true}}
`, name, annotations, weight, least, most)
}

// TestSharesWithTimers checks that a timer reduces the shares of the stages that are due after it.
func TestSharesWithTimers(t *testing.T) {
	for name, c := range map[string]struct {
		stages []string
		want   string
	}{
		"late":     {[]string{timed("a", false, 1, 1000, 1000), timed("b", false, 3, 0, 0), timed("t", true, 9, 2000, 2000)}, "a 0.25 b 0.75 t 0.00"},
		"early":    {[]string{timed("a", false, 1, 3000, 3000), timed("t", true, 0, 2000, 2000)}, "a 0.00 t 1.00"},
		"together": {[]string{timed("a", false, 1, 2000, 2000), timed("t", true, 0, 2000, 2000)}, "a 1.00 t 0.00"},
		"between":  {[]string{timed("a", false, 1, 1000, 1000), timed("b", false, 1, 3000, 3000), timed("t", true, 0, 2000, 2000)}, "a 0.50 b 0.00 t 0.50"},
		"within":   {[]string{timed("a", false, 1, 1000, 5000), timed("t", true, 0, 2000, 2000)}, "a 0.25 t 0.75"},
		"alone":    {[]string{timed("t", true, 0, 2000, 2000), timed("u", true, 0, 1000, 1000)}, "t 0.00 u 1.00"},
	} {
		var got []string
		for _, o := range mustCompile(t, strings.Join(c.stages, "")).Options(stagetest.Start, 1, stagetest.NewPod(), Past{}, Scene{}) {
			got = append(got, fmt.Sprintf("%s %.2f", o.Stage, o.Share))
			if o.Timer != (o.Stage == "t" || o.Stage == "u") || o.Timer && o.Weight != 0 {
				t.Errorf("%s: %+v", name, o)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestSharesAreWhatDecideComesTo checks that shares equal the frequencies of decisions, for random
// stages and timers.
func TestSharesAreWhatDecideComesTo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var all []string
		add := func(prefix string, timer bool, most int) {
			for i := range rapid.IntRange(0, most).Draw(r, prefix+"s") {
				least := 1000 * rapid.IntRange(0, 4).Draw(r, "least")
				all = append(all, timed(fmt.Sprint(prefix, i), timer, rapid.IntRange(0, 3).Draw(r, "weight"), least, least+1000*rapid.IntRange(0, 3).Draw(r, "spread")))
			}
		}
		add("drawn", false, 3)
		add("timer", true, 3)
		if len(all) == 0 {
			return
		}
		set := mustCompile(t, strings.Join(all, ""))
		const n = 2000
		came := map[string]float64{}
		for i := range n {
			p := stagetest.NewPod(func(p *corev1.Pod) { p.UID = types.UID(fmt.Sprint("uid-", i)) })
			d := set.Decide(stagetest.Start, 7, p, Past{}, Scene{})
			came[d.Stage] += 1. / n
		}
		for _, o := range set.Options(stagetest.Start, 7, stagetest.NewPod(), Past{}, Scene{}) {
			if math.Abs(came[o.Stage]-o.Share) > 0.06 { // more than five standard deviations
				r.Fatalf("%s: played %.3f of the time, its share is %.3f\n%s", o.Stage, came[o.Stage], o.Share, strings.Join(all, ""))
			}
		}
	})
}
