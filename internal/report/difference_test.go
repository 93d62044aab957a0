package report_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// change makes the last step of a record change an object to a state; the patch is the whole state.
func (r *recorder) change(state string) {
	s := &r.Steps[len(r.Steps)-1]
	s.Changes = append(s.Changes, history.Change{Object: s.Object, Revision: s.Revision, Patch: json.RawMessage(state)})
}

// TestCauseOfDifference: for a difference between end states, the cause names the object that differs, not its owner:
// the write that gave it the value, or what the object waits for.
func TestCauseOfDifference(t *testing.T) {
	revision := func(n int) string {
		return fmt.Sprintf(`{"metadata":{"ownerReferences":[{"kind":"StatefulSet","name":"db"}]},"revision":%d}`, n)
	}
	play := func(second int, update bool) *recorder {
		r := record("lag actor=sts resource=controllerrevisions.apps nth=1")
		start := r.add(history.Step{Kind: history.Start, Actor: "sts"})
		r.informer("sts", "controllerrevisions.apps", "", 1, start)
		r.write("user", "create", "statefulsets.apps", "db", "", "")
		r.change(`{"spec":{}}`)
		a := r.write("sts", "create", "controllerrevisions.apps", "db-a", "", "", start)
		r.change(revision(1))
		r.write("sts", "create", "controllerrevisions.apps", "db-b", "", "", start)
		r.change(revision(second))
		r.frame("sts", "ADDED", "controllerrevisions.apps", "db-a", 1, 12, "lag actor=sts resource=controllerrevisions.apps nth=1", a)
		r.write("sts", "update", "statefulsets.apps", "db", "", "", start)
		r.change(`{"status":{"replicas":1}}`)
		if update {
			r.write("sts", "update", "controllerrevisions.apps", "db-b", "", "", start)
			r.change(revision(2))
		}
		r.wait(time.Minute)
		r.fail("ends as without faults", `controllerrevisions.apps of default/StatefulSet db: revision is "1"; without faults "2"`)
		r.Failure.AtEnd, r.Failure.Resource, r.Failure.Path = true, "controllerrevisions.apps", "revision"
		return r
	}
	passing := func(r *recorder) *history.Run {
		r.Failure = nil
		return r.Run
	}
	another := play(1, false)
	another.Failure.Message = `controllerrevisions.apps of default/StatefulSet other: revision is "1"; without faults "2"`
	surplus := play(2, false)
	surplus.Failure.Message, surplus.Failure.Path = "controllerrevisions.apps of default/StatefulSet db: 2 at the end; without faults 1", ""
	fewer := play(2, false)
	fewer.Steps = fewer.Steps[:5]
	for name, c := range map[string]struct {
		run, nearest *history.Run
		want         string
	}{
		"a wrong value": {play(1, false).Run, passing(play(2, false)),
			"sts created controllerrevisions default/db-b (step 5) while its cache of controllerrevisions was at revision 10 and the truth at 12: it had not observed its own create of controllerrevisions default/db-a (step 4); watch events came late"},
		"a write is missing": {play(1, false).Run, passing(play(1, true)),
			"controllerrevisions.apps default/db-b waits: its last change was sts' create (step 5, 0s); the nearest passing run has sts' update of controllerrevisions.apps default/db-b (step 8 there), which is missing here"},
		"of another owner":     {another.Run, passing(play(2, false)), "statefulsets.apps default/db waits"},
		"an object too many":   {surplus.Run, passing(fewer), "sts created controllerrevisions default/db-b (step 5)"},
		"as many as elsewhere": {surplus.Run, passing(play(2, false)), "statefulsets.apps default/db waits"},
	} {
		got := report.Cause(c.run, c.nearest)
		if name == "of another owner" {
			if strings.Contains(got, "created controllerrevisions") {
				t.Errorf("%s: %s", name, got)
			}
			continue
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s:\nhave %s\nwant %s", name, got, c.want)
		}
	}
}

// TestLateExecution: a write of an instance that was terminated before is not explained by the caches of
// that instance, which no longer exist.
func TestLateExecution(t *testing.T) {
	const deposed = "deposed-write actor=job verb=create resource=pods nth=1"
	r := record(deposed)
	start := r.add(history.Step{Kind: history.Start, Actor: "job"})
	r.informer("job", "pods", "", 1, start)
	r.add(history.Step{Kind: history.Crash, Actor: "job", Fault: deposed})
	next := r.add(history.Step{Kind: history.Start, Actor: "job+"})
	r.write("job+", "patch", "jobs.batch", "pi", "", "", next)
	r.write("job+", "create", "pods", "pi-1", "", "", next)
	r.write("job", "create", "pods", "pi-2", deposed, "lost", start)
	run := r.fail("1 pod", "2")
	want := "job created pods default/pi-2 (step 7), sent before it was terminated (step 3) and carried out after job+'s create of pods default/pi-1 (step 6); a write of a terminated instance"
	if got := report.Cause(run, nil); !strings.Contains(got, want) {
		t.Errorf("have %s\nwant %s", got, want)
	}
}

// TestRelist: after a watch that begins with a list, a cache lacks nothing that the list contains.
func TestRelist(t *testing.T) {
	const relist = "relist actor=rs resource=pods nth=1"
	r := record(relist)
	start := r.add(history.Step{Kind: history.Start, Actor: "rs"})
	all := history.Object{Resource: "pods"}
	const initial = "resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
	r.add(history.Step{Kind: history.Request, Actor: "rs", Verb: "watch", Object: all, Query: initial, Code: 200, Stream: 1}, start)
	a := r.write("rs", "create", "pods", "a", "", "", start)
	r.write("user", "delete", "pods", "a", "", "")
	r.add(history.Step{Kind: history.Frame, Actor: "rs", Type: "ADDED", Object: thing("pods", "a"), Stream: 1, Revision: 11, Reply: "lost", Fault: relist}, a)
	r.add(history.Step{Kind: history.Cut, Actor: "rs", Object: all, Stream: 1, Fault: relist})
	r.add(history.Step{Kind: history.Request, Actor: "rs", Verb: "watch", Object: all, Query: initial, Code: 200, Stream: 2})
	r.add(history.Step{Kind: history.Frame, Actor: "rs", Type: "BOOKMARK", Object: all, Stream: 2, Revision: 12})
	r.wait(time.Minute)
	want := "although all caches are up to date; at step 5 the watch expired (410)"
	if got := report.Cause(r.fail("1 pod", "none"), nil); !strings.Contains(got, want) {
		t.Errorf("have %s\nwant %s", got, want)
	}
}

// TestEssentialRows: a page with few rows shows the steps that the explanation names, however early they are.
func TestEssentialRows(t *testing.T) {
	const lag = "lag resource=pods nth=9"
	r := record(lag, "error nth=77")
	start := r.add(history.Step{Kind: history.Start, Actor: "jobs"})
	r.informer("jobs", "pods", "", 1, start)
	r.write("kubelet", "patch", "pods", "a", "", "")
	r.frame("jobs", "MODIFIED", "pods", "a", 1, 11, lag, 3)
	for i := range 300 {
		r.write("jobs", "patch", "nodes", fmt.Sprintf("n%d", i), "", "", start)
	}
	r.wait(time.Minute)
	run := r.fail("eventually pod default/a is gone", "pods default/a exists")
	run.Failure.AtEnd = true
	built := report.Of("f", run, nil)
	picture := built.Picture(40)
	rows := map[int]bool{}
	for _, row := range picture.Rows {
		rows[row.Step.N] = true
	}
	if len(rows) > 40 || !rows[3] || !rows[4] || !rows[run.Failure.Step] {
		t.Errorf("%d rows; the write: %v, its event: %v, the failure: %v", len(rows), rows[3], rows[4], rows[run.Failure.Step])
	}
	if text := draw(t, run, report.LaneOptions{Around: 2}); !strings.Contains(text, "\n   3 ") || !strings.Contains(text, "fault: planned, but no step shows an effect: error nth=77") {
		t.Errorf("the text lacks step 3, or marks no fault:\n%s", text)
	}
	if f := built.Faults; f[0].NoEffect || !f[1].NoEffect {
		t.Errorf("faults: %+v", f)
	}
	// A delay is recorded when it ends.
	for at, want := range map[bool]string{
		true:  "fault: planned, but no step shows an effect: lag resource=nodes",
		false: "fault: watch events came late (lag resource=nodes), which was not over at the violation",
	} {
		run.Faults, run.Failure.AtEnd = []string{"lag resource=nodes"}, at
		if f := report.Of("f", run, nil).Faults; f[0].NoEffect != at || "fault: "+f[0].Words != want {
			t.Errorf("violated at the end: %v: %+v, want %q", at, f, want)
		}
	}
}
