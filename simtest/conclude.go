package simtest

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// conclude turns what a search found into the verdict of a test.
func (p *player) conclude(t testing.TB, r *sim.Result) {
	t.Helper()
	if r.Failure != nil && r.Failure.Run.Failure.Oracle == storyOracle {
		// A mistake of the test, not a find: there is nothing to keep or to draw.
		t.Error(r.Failure.Run.Failure.Message)
		return
	}
	if r.Failure != nil {
		file, err := p.keep(r.Failure.Run, r.Failure.Nearest)
		if err != nil {
			t.Errorf("the failed run could not be kept: %v", err)
		}
		t.Error(p.tell(r, file))
		return
	}
	if r.Stopped != "" && r.Runs < 3 {
		t.Errorf("nothing was learned: %s after %d runs", r.Stopped, r.Runs)
	}
	for _, name := range r.Unseen() {
		t.Errorf("never seen in %d runs: %s. The story does not bite, or the search is too short (-simtest.seeds, -simtest.budget)", r.Runs, name)
	}
	if d := r.Drift; d != nil && d.Same {
		t.Errorf("the first run, played again after %d others, goes another way from step %d on: %s. A controller keeps something from one run to the next, in a variable of a package perhaps; then a crash in a run is not what it is in life. Keep it in what the constructor makes, or rehearse the controller as a process of its own (rehearse test)",
			r.Runs-1, d.Step, stepText(r.Baseline, d.Step))
	} else if d != nil {
		t.Logf("runs of this story do not repeat: the first one departs at step %d (%s). Something in a controller is drawn at random", d.Step, stepText(r.Baseline, d.Step))
	}
	t.Log(summary(r))
	if r.Reported > 0 {
		t.Log(reported(r))
	}
}

// reported tells of the first write that was decided on a stale view and that the API
// could refuse, or that was about something else.
func reported(r *sim.Result) string {
	text := fmt.Sprintf("in %s a write was decided on a view older than the writer's own last write; the API could refuse it, or it was about something else. The first, in run %d:\n    %s",
		count(r.Reported, "run"), r.Report.Run, r.Report.Text)
	for _, f := range r.Report.Plan.Faults {
		text += "\n    with " + f.String()
	}
	return text
}

// summary says how much was tried.
func summary(r *sim.Result) string {
	text := fmt.Sprintf("held in %d runs, %d of them different, in %s: %d of %d single faults, %d runs with several",
		r.Runs, r.Distinct, r.Elapsed.Round(time.Millisecond), r.Systematic, r.SystematicTotal, r.Random)
	if r.Stopped != "" {
		text += "; " + r.Stopped
	}
	return text
}

// tell is the whole story of a failure, for people.
func (p *player) tell(r *sim.Result, file string) string {
	f := r.Failure
	broken := f.Run.Failure
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s: %s", broken.Oracle, broken.Message)
	if cause := causeOf(f.Run); cause != "" {
		line("cause: %s", cause)
	}
	line("broken at step %d, %s after the start; found in run %d of %d distinct ones, %s",
		broken.Step, broken.At, f.FoundAfter, r.Distinct, f.Grade())
	line("made small in %d runs: %s and %s; when found %s and %s",
		f.ShrinkRuns, count(len(f.Plan.Faults), "fault"), count(len(f.Run.Steps), "step"),
		count(f.FoundFaults, "fault"), count(f.FoundSteps, "step"))
	for _, text := range f.Run.Faults {
		line("    %s", text)
	}
	if f.Nearest != nil {
		if step, departs := history.Diverged(f.Nearest, f.Run); departs && step < len(f.Run.Steps) {
			line("the nearest run that held goes the same way up to step %d", step)
		}
	}
	b.WriteByte('\n')
	b.WriteString(lanesOf(f.Run))
	if file != "" {
		line("\nreplay: %s", p.command(file))
		line("draw: rehearse report %s -o html --output report.html", file)
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// command plays a kept run again. Test binaries run in the directory of their
// package, so the file's path is right wherever the command is typed.
func (p *player) command(file string) string {
	pkg := "."
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasSuffix(info.Path, ".test") {
		pkg = strings.TrimSuffix(info.Path, ".test")
	}
	names := strings.Split(p.t.Name(), "/")
	for n := range names {
		names[n] = "^" + names[n] + "$"
	}
	return fmt.Sprintf("go test %s -run '%s' -simtest.replay=%s", pkg, strings.Join(names, "/"), file)
}

// replay plays a kept run again and says whether it went the same way.
func (p *player) replay(t testing.TB, file string) {
	t.Helper()
	recorded, err := readRun(file)
	if err != nil {
		t.Fatal(err)
	}
	if recorded.Test != t.Name() {
		t.Fatalf("%s is a run of %s, not of %s; choose that test with -run", file, recorded.Test, t.Name())
	}
	plan, err := planOf(recorded)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	outs, err := sim.Replay(t.Context(), p, sim.Options{Seed: p.config.seed}, plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	out := outs[0]
	if step, diverged := history.Diverged(recorded, out.Run); diverged {
		t.Fatalf("diverged at step %d: %s\nrecorded: %s\nnow:      %s\nThe controller, its libraries or the test have changed since the run was kept; if they have not, something in the controller is drawn at random.\n%s",
			step, file, stepText(recorded, step), stepText(out.Run, step), verdictOf(out.Run))
	}
	if out.Run.Failure == nil {
		t.Logf("%s: the same %d steps, and every promise held", file, len(out.Run.Steps))
		return
	}
	t.Errorf("%s: the same %d steps again\n%s", file, len(out.Run.Steps),
		p.tell(&sim.Result{Failure: &sim.Failure{Plan: plan, Run: out.Run, FoundFaults: len(plan.Faults), FoundSteps: len(out.Run.Steps), Same: 3, Identical: 3}}, file))
}

func stepText(r *history.Run, n int) string {
	if n >= len(r.Steps) {
		return "the run is over"
	}
	s := &r.Steps[n]
	return strings.Join(strings.Fields(fmt.Sprintf("at %s %s %s %s %s %s %s rev %d code %d content %s %s", s.At, s.Actor, s.Kind, s.Verb, s.Type, s.Object, s.Subresource, s.Revision, s.Code, s.Digest, s.Fault)), " ")
}

func verdictOf(r *history.Run) string {
	if r.Failure != nil {
		return "This time it fails too: " + r.Failure.Oracle + ": " + r.Failure.Message
	}
	return "This time every promise held."
}
