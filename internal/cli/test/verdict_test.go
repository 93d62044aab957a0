package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// failedRun is a run that violated an invariant at its last step.
func failedRun(message string, faults ...string) *history.Run {
	r := &history.Run{Header: history.Header{Format: history.Format, Test: "web", Seed: 1, Live: true, Faults: faults}}
	r.Add(history.Step{Kind: history.Start, Actor: "web"})
	r.Add(history.Step{Kind: history.Request, Actor: "web", Verb: "create", Object: history.Object{Resource: "pods", Namespace: "default", Name: message}, Code: 201, Revision: 3, Truth: 3})
	r.Failure = &history.Failure{Oracle: "one pod", Message: message, Step: 1}
	return r
}

// TestVerdicts: failures that reproduce and failures that were seen once are listed, stored and counted
// separately; the exit code is 1 for the former, and with --strict for the latter.
func TestVerdicts(t *testing.T) {
	failure := func(message string, same, times int, faults ...string) *sim.Failure {
		parsed, err := fault.ParseAll(faults)
		if err != nil {
			t.Fatal(err)
		}
		return &sim.Failure{Plan: sim.Plan{Seed: 1, Faults: parsed}, Run: failedRun(message, faults...), FoundAfter: 5, FoundFaults: 1, FoundSteps: 2, Tally: sim.Tally{Repeats: 20, Same: same}, Times: times, Live: true}
	}
	raised := failure("there are 2", 20, 1, "lag actor=web nth=1")
	raised.Shrunk = &sim.Shrunk{Tally: sim.Tally{Repeats: 20, Same: 4}}
	passing := &history.Run{Header: history.Header{Format: history.Format, Test: "web", Live: true}}
	passing.Add(history.Step{Kind: history.Start, Actor: "web"})
	for name, c := range map[string]struct {
		failures, seenOnce []*sim.Failure
		options            testOptions
		code               int
		stdout, stderr     []string
		verdict            string
	}{
		"passed": {code: 0, stdout: []string{"web: passed: 0 of 0 single faults, 0 pairs, 40 runs, 23 repeats of failures"}, verdict: "passed"},
		"seen once": {
			seenOnce: []*sim.Failure{failure("there are 2", 0, 1, "lag actor=web nth=1"), failure("there are 3", 1, 4)}, verdict: "passed",
			stdout: []string{"web: passed: 0 of 0 single faults, 0 pairs, 40 runs, 23 repeats of failures", "seen once, reproduced 0 of 20: one pod: there are 2\n      in run 5\n      with lag actor=web nth=1\n      replay: rehearse replay ", "in 4 runs of the search, first in run 5"},
			stderr: []string{"rehearse: web: warning: 2 failures seen once: repeating the run did not reproduce it; --strict makes this an error"},
		},
		"seen once, strict": {
			seenOnce: []*sim.Failure{failure("there are 2", 0, 1)}, options: testOptions{strict: true}, code: 1, verdict: "failed",
			stdout: []string{"web: 1 failure seen once, with --strict (0 of 0", "seen once, reproduced 0 of 20: one pod: there are 2"},
		},
		"failed": {
			failures: []*sim.Failure{failure("there are 2", 7, 1)}, seenOnce: []*sim.Failure{failure("there are 3", 1, 1)}, code: 1, verdict: "failed",
			stdout: []string{"web: FAILED: one pod: there are 2", "found in run 5 of 40, reproduced 7 of 20", "needs no fault: a timing race, 7 of 20 without faults\n", ".jsonl --times 20\nreport: ", "seen once, reproduced 1 of 20: one pod: there are 3"},
		},
		"a race": {
			failures: []*sim.Failure{raised}, code: 1, verdict: "failed",
			stdout: []string{"reproduced 20 of 20", "needs no fault: a timing race, 4 of 20 without faults; the delay raises the rate to 20 of 20\n"},
		},
		"keep going": {
			failures: []*sim.Failure{failure("there are 2", 20, 3), failure("there are 3", 20, 1)}, options: testOptions{keepGoing: true}, code: 1, verdict: "failed",
			stdout: []string{"web: FAILED: one pod: there are 2", "3 runs of the search failed in this way", "web: FAILED: one pod: there are 3", "web: 2 different failures\ntried: 0 of 0 single faults"},
		},
	} {
		for _, format := range []string{"text", "json", "junit"} {
			var out, errs bytes.Buffer
			o := c.options
			o.failures, o.format = t.TempDir(), console.NewOutput(format, "text", "json", "junit")
			v := &verdicts{a: &app{&console.Console{Streams: console.Streams{Out: &out, Err: &errs}, Getenv: func(string) string { return "" }}}, o: &o, keep: &runKeeper{}}
			result := &sim.Result{Runs: 40, Repeats: 23, Baseline: passing, Failures: c.failures, SeenOnce: c.seenOnce}
			if len(c.failures) > 0 {
				result.Failure = c.failures[0]
			}
			if err := v.add(&scenario.Scenario{Name: "web", File: "web.yaml"}, nil, result, nil); err != nil {
				t.Fatal(err)
			}
			code, err := 0, v.conclude(t.Context())
			if exit := (*console.ExitError)(nil); errors.As(err, &exit) {
				code = exit.Code
			}
			if code != c.code {
				t.Errorf("%s, %s: exit code %d: %v", name, format, code, err)
			}
			for _, want := range c.stderr {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("%s, %s: stderr has no %q: %s", name, format, want, errs.String())
				}
			}
			if len(c.stderr) == 0 && errs.Len() > 0 {
				t.Errorf("%s, %s: stderr: %s", name, format, errs.String())
			}
			files, err := os.ReadDir(o.failures)
			if stored := err == nil && len(files) > 0; stored != (len(c.failures)+len(c.seenOnce) > 0) {
				t.Errorf("%s, %s: stored %v, %v", name, format, files, err)
			}
			switch format {
			case "text":
				for _, want := range c.stdout {
					if !strings.Contains(out.String(), want) {
						t.Errorf("%s: no %q in\n%s", name, want, out.String())
					}
				}
			case "json":
				checkJSON(t, name, out.Bytes(), c.verdict, c.failures, c.seenOnce)
			case "junit":
				failed, skipped := len(c.failures), len(c.seenOnce)
				if c.options.strict {
					failed, skipped = skipped, 0
				}
				if n, m := strings.Count(out.String(), "<failure "), strings.Count(out.String(), "<skipped "); n != failed || m != skipped {
					t.Errorf("%s: %d failures and %d skipped in\n%s", name, n, m, out.String())
				}
			}
		}
	}
}

// TestVerdictsWithoutFailure: a verdict that no failed run shows is an error or a failure for a CI server too, and with several scenarios the reason of
// each inconclusive one is printed.
func TestVerdictsWithoutFailure(t *testing.T) {
	passing := &history.Run{Header: history.Header{Format: history.Format, Test: "web", Live: true}}
	passing.Add(history.Step{Kind: history.Start, Actor: "web"})
	never := &sim.Result{Runs: 9, Baseline: passing, Seen: map[string]bool{"a pod is Ready": false}}
	once := &sim.Result{Runs: 9, Baseline: passing, Seen: never.Seen, SeenOnce: []*sim.Failure{{Run: failedRun("there are 2")}}}
	none := errors.New("client web exits immediately")
	for name, c := range map[string]struct {
		results  []*sim.Result
		errs     []error
		code     int
		junit    []string
		stderr   string
		reported string // the error of the command, which main prints
	}{
		"never seen":     {[]*sim.Result{never}, []error{nil}, 1, []string{"<failure ", "never observed: a pod is Ready"}, "", ""},
		"and seen once":  {[]*sim.Result{once}, []error{nil}, 1, []string{"<failure ", "never observed: a pod is Ready", "<skipped "}, "rehearse: web: warning: 1 failure seen once: the search ended before the run was repeated; --strict makes this an error\n", ""},
		"inconclusive":   {[]*sim.Result{nil}, []error{none}, 3, []string{"<error ", "client web exits immediately"}, "", "web: client web exits immediately"},
		"and one failed": {[]*sim.Result{nil, never}, []error{none, nil}, 1, []string{"<error ", "<failure "}, "rehearse: web: client web exits immediately\n", ""},
		"both":           {[]*sim.Result{nil, nil}, []error{none, errors.New("no API")}, 3, []string{"client web exits immediately", "no API"}, "rehearse: web: client web exits immediately\n", "web: no API"},
	} {
		var out, errs bytes.Buffer
		o := testOptions{failures: t.TempDir()}
		o.format = console.NewOutput("junit", "text", "json", "junit")
		v := &verdicts{a: &app{&console.Console{Streams: console.Streams{Out: &out, Err: &errs}, Getenv: func(string) string { return "" }}}, o: &o, keep: &runKeeper{}}
		for i, r := range c.results {
			if err := v.add(&scenario.Scenario{Name: "web", File: "web.yaml"}, nil, r, c.errs[i]); err != nil {
				t.Fatal(err)
			}
		}
		err := v.conclude(t.Context())
		if code := console.ExitCode(err); code != c.code || errs.String() != c.stderr {
			t.Errorf("%s: exit code %d, stderr %q", name, code, errs.String())
		}
		if c.reported != "" && console.Message(err) != c.reported {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.junit {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out.String())
			}
		}
	}
}

// TestReplayWithoutFaults: runs in which a recorded fault did not happen do not show that a failure is gone.
func TestReplayWithoutFaults(t *testing.T) {
	failed := failedRun("there are 2", "conflict actor=web nth=1")
	passed, unmet := &sim.Outcome{Run: &history.Run{}}, &sim.Outcome{Run: &history.Run{}, Unmet: []fault.Fault{fault.Of(fault.KindConflict)}}
	for name, c := range map[string]struct {
		recorded *history.Run
		outs     []*sim.Outcome
		code     int
		want     string
	}{
		"all happened":       {failed, []*sim.Outcome{passed, passed}, 0, "a: no longer fails: every invariant holds in 2 runs\n"},
		"one did not":        {failed, []*sim.Outcome{passed, unmet}, 0, "a: no longer fails: every invariant holds in 2 runs; in 1 of them not every fault happened: conflict met no request\n"},
		"none happened":      {failed, []*sim.Outcome{unmet, unmet}, 3, "a: every invariant holds in 2 runs, but without every fault, so the runs say nothing about the failure: conflict met no request; search again with 'rehearse test'"},
		"of a passing run":   {&history.Run{}, []*sim.Outcome{unmet}, 0, "a: passes, as recorded, in 1 run; in 1 of them not every fault happened: conflict met no request\n"},
		"passes as recorded": {&history.Run{}, []*sim.Outcome{passed}, 0, "a: passes, as recorded, in 1 run\n"},
	} {
		var out bytes.Buffer
		err := (&app{&console.Console{Streams: console.Streams{Out: &out}}}).compare("a", c.recorded, c.outs)
		got := out.String()
		if err != nil {
			got += console.Message(err)
		}
		if console.ExitCode(err) != c.code || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: exit code %d: %s", name, console.ExitCode(err), got)
		}
	}
}

func checkJSON(t *testing.T, name string, data []byte, want string, failures, seenOnce []*sim.Failure) {
	t.Helper()
	var got testResult
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, data)
	}
	one := got.Scenarios[0]
	if one.Verdict != want || one.RepeatRuns != 23 || len(one.Failures) != len(failures) || len(one.SeenOnce) != len(seenOnce) || (one.Failure != nil) != (len(failures) > 0) {
		t.Errorf("%s: %+v", name, one)
		return
	}
	for n, f := range append(failures, seenOnce...) {
		d := append(one.Failures, one.SeenOnce...)[n]
		if d.Reproduced != f.Same || d.Repeats != f.Repeats || d.Times != f.Times || d.File == "" || d.Invariant != "one pod" || (f.Shrunk != nil) != (d.WithoutDelay != nil) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
