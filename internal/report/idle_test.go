package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// TestCauseOfIdleController: if something is missing at the end, the cause says that the controller has no reason to run
// again, unless an event, an answer or a recent request contradicts it.
func TestCauseOfIdleController(t *testing.T) {
	const idle = "; jobs' caches are current, no request of it is pending, and it has sent none for 1m0s: no event will make it run again"
	for name, c := range map[string]struct {
		play func(r *recorder, start int)
		want bool
	}{
		"nothing is pending": {func(r *recorder, start int) {
			a := r.write("user", "create", "pods", "a", "", "")
			r.write("jobs", "patch", "pods", "a", "", "", start)
			r.frame("jobs", "ADDED", "pods", "a", 1, 11, "", a)
			r.frame("jobs", "MODIFIED", "pods", "a", 1, 12, "", a)
			r.wait(time.Minute)
		}, true},
		"an event is late": {func(r *recorder, start int) {
			r.write("jobs", "patch", "pods", "b", "", "", start)
			r.write("user", "create", "pods", "a", "", "")
			r.wait(time.Minute)
		}, false},
		"an answer is late": {func(r *recorder, start int) {
			a := r.write("user", "create", "pods", "a", "", "")
			w := r.write("jobs", "patch", "pods", "a", "", "", start)
			r.Steps[w].Reply = "late"
			r.frame("jobs", "MODIFIED", "pods", "a", 1, 12, "", a)
			r.wait(time.Minute)
		}, false},
		"it has sent a request a moment before": {func(r *recorder, start int) {
			a := r.write("user", "create", "pods", "a", "", "")
			r.wait(time.Minute)
			r.write("jobs", "patch", "pods", "a", "", "", start)
			r.frame("jobs", "MODIFIED", "pods", "a", 1, 12, "", a)
			r.wait(time.Second)
		}, false},
		"it has terminated": {func(r *recorder, start int) {
			a := r.write("user", "create", "pods", "a", "", "")
			r.write("jobs", "patch", "pods", "a", "", "", start)
			r.frame("jobs", "MODIFIED", "pods", "a", 1, 12, "", a)
			r.add(history.Step{Kind: history.Crash, Actor: "jobs"})
			r.wait(time.Minute)
		}, false},
		"two controllers, of which neither lacks a write": {func(r *recorder, start int) {
			r.add(history.Step{Kind: history.Start, Actor: "others"})
			a := r.write("user", "create", "pods", "a", "", "")
			r.write("jobs", "patch", "pods", "a", "", "", start)
			r.frame("jobs", "MODIFIED", "pods", "a", 1, 12, "", a)
			r.wait(time.Minute)
		}, false},
	} {
		r := record()
		start := r.add(history.Step{Kind: history.Start, Actor: "jobs"})
		r.informer("jobs", "pods", "", 1, start)
		c.play(r, start)
		run := r.fail("eventually pod default/a is ready", "pods default/a is not")
		run.Failure.AtEnd = true
		if got := report.Cause(run, nil); strings.Contains(got, idle) != c.want || strings.Contains(got, "run again") != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
