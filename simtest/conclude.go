package simtest

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// conclude reports what a search found as the result of a test.
func (p *player) conclude(t testing.TB, r *sim.Result) {
	t.Helper()
	if r.Failure != nil && r.Failure.Run.Failure.Oracle == testOracle {
		// The test is at fault, not a controller: there is nothing to store or to draw.
		t.Error(r.Failure.Run.Failure.Message)
		return
	}
	for _, f := range r.SeenOnce {
		report := t.Log
		if *flagStrict {
			report = t.Error
		}
		report(describeSeenOnce(f, p.store(t, r, f)))
	}
	for _, f := range r.Failures {
		t.Error(p.describeFailure(r, f, p.store(t, r, f)))
	}
	if r.Failure != nil {
		return
	}
	if r.Stopped != "" && r.Runs < 3 {
		t.Errorf("inconclusive: %s after %d runs", r.Stopped, r.Runs)
	}
	for _, name := range r.Unseen() {
		t.Errorf("never seen in %d runs: %s. The test does not reach it, or the search is too short (-simtest.seeds, -simtest.budget)", r.Runs, name)
	}
	if d := r.Drift; d != nil && d.Same {
		t.Errorf("the first run, played again after %d others, differs from step %d on: %s. A controller keeps state from one run to the next, perhaps in a package variable; then a crash in a run does not lose it, as a real crash does. Keep the state in what the constructor creates, or test the controller as a process of its own (rehearse test)",
			r.Runs-1, d.Step, stepText(r.Baseline, d.Step))
	} else if d != nil {
		t.Logf("runs of this test do not repeat: the first one differs from step %d on (%s). A controller uses randomness that the seed does not control", d.Step, stepText(r.Baseline, d.Step))
	}
	t.Log(summary(r))
	for _, p := range r.NoLongerApply {
		t.Logf("a stored failure no longer applies: one of its faults meets nothing any more, or cannot create an object again: %s", strings.Join(fault.Strings(p.Faults), "; "))
	}
	for _, e := range r.Unmatched {
		if !e.Broad() {
			t.Log(e)
		}
	}
	if *flagVerbose {
		t.Logf("single faults that were tried, at each place:\n%s", sim.ListPlaces(r.Places))
		t.Logf("what was covered of each kind of write:\n%s", coverage.List(r.Coverage))
	}
	if r.Reported > 0 {
		t.Log(reported(r))
	}
}

// store stores a failure, and returns its file; "" if it could not be stored.
func (p *player) store(t testing.TB, r *sim.Result, f *sim.Failure) string {
	t.Helper()
	file, err := p.keep(f.Run, f.Nearest, r.Coverage)
	if err != nil {
		t.Errorf("store the failed run: %v", err)
	}
	return file
}

// describeSeenOnce is the text of a failure that does not reproduce.
func describeSeenOnce(f *sim.Failure, file string) string {
	text := fmt.Sprintf("seen once, in run %d: %s: %s\nRepeating the run did not reproduce it (%s): a controller uses randomness that the seed does not control.",
		f.FoundAfter, f.Run.Failure.Oracle, f.Run.Failure.Message, f.Grade())
	for _, injected := range f.Run.Faults {
		text += "\n    with " + injected
	}
	if file != "" {
		text += "\nrecord: " + file
	}
	return text
}

// reported describes the first stale own-write that the API could reject, or that was about another
// object.
func reported(r *sim.Result) string {
	text := fmt.Sprintf("in %s a write was decided on a view older than the writer's own last write; the API could reject it, or it was about another object. The first, in run %d:\n    %s",
		count(r.Reported, "run"), r.Report.Run, r.Report.Text)
	for _, f := range r.Report.Plan.Faults {
		text += "\n    with " + f.String()
	}
	return text
}

// summary says how much was tried.
func summary(r *sim.Result) string {
	text := fmt.Sprintf("passed: %s (%s behaved differently) in %s", r.Tried(), sim.Grouped(r.Distinct), r.Elapsed.Round(time.Millisecond))
	if r.Stopped != "" {
		text += "; " + r.Stopped
	}
	if len(r.NotCompared) > 0 {
		text += "\nnot compared, because runs without faults differ in it: " + strings.Join(r.NotCompared, ", ")
	}
	return text
}

// describeFailure is the text of a failure: what was violated, why, its lanes, and how to replay it.
func (p *player) describeFailure(r *sim.Result, f *sim.Failure, file string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s: %s", f.Run.Failure.Oracle, f.Run.Failure.Message)
	b.WriteString(f.Summary(causeOf(f.Run, f.Nearest), fmt.Sprintf("%d distinct ones", r.Distinct)).String())
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

// command is the command that replays a stored run. Test binaries run in the directory of their
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

// replay plays a stored run again and reports whether it takes the same steps.
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
	outs, err := sim.Replay(t.Context(), p, sim.Options{Seed: p.config.seed, Compare: sim.NeedsBaseline(recorded)}, plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	out := outs[0]
	if step, diverged := history.Diverged(recorded, out.Run); diverged {
		t.Fatalf("diverged at step %d: %s\nrecorded: %s\nnow:      %s\nThe controller, its libraries or the test have changed since the run was stored; if they have not, the controller uses randomness that the seed does not control.\n%s",
			step, file, stepText(recorded, step), stepText(out.Run, step), resultOf(out.Run))
	}
	if out.Run.Failure == nil {
		t.Logf("%s: the same %d steps, and no invariant was violated", file, len(out.Run.Steps))
		return
	}
	t.Errorf("%s: the same %d steps again\n%s", file, len(out.Run.Steps),
		p.describeFailure(&sim.Result{}, &sim.Failure{
			Plan: plan, Run: out.Run, FoundFaults: len(plan.Faults), FoundSteps: len(out.Run.Steps), Tally: sim.Tally{Repeats: 3, Same: 3, Identical: 3},
		}, file))
}

func stepText(r *history.Run, n int) string {
	if n >= len(r.Steps) {
		return "the run has ended"
	}
	s := &r.Steps[n]
	return strings.Join(strings.Fields(fmt.Sprintf("at %s %s %s %s %s %s %s rev %d code %d content %s %s", s.At, s.Actor, s.Kind, s.Verb, s.Type, s.Object, s.Subresource, s.Revision, s.Code, s.Digest, s.Fault)), " ")
}

func resultOf(r *history.Run) string {
	if r.Failure != nil {
		return "This time it fails too: " + r.Failure.Oracle + ": " + r.Failure.Message
	}
	return "This time no invariant was violated."
}
