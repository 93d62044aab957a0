package test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// verdicts are the results of the scenarios of one command.
type verdicts struct {
	a       *app
	o       *testOptions
	all     []verdict
	reports []*report.Run
	keep    *runKeeper // of the last scenario
}

// verdict is the result of one scenario, as programs read it.
type verdict struct {
	Scenario string `json:"scenario"`
	File     string `json:"file"`
	// Verdict is passed, failed, inconclusive or interrupted.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	Runs    int    `json:"runs"`
	// SingleFaults of SingleFaultsTotal were tried, and SeveralFaults runs had more than one.
	SingleFaults      int `json:"singleFaults"`
	SingleFaultsTotal int `json:"singleFaultsTotal"`
	SeveralFaults     int `json:"severalFaults"`
	// RedundantSingleFaults need no run, because they hold something for a duration between those of two others that made no
	// difference. NotApplied runs had a fault that met no request and no event: they do not count as tried.
	RedundantSingleFaults int `json:"redundantSingleFaults"`
	NotApplied            int `json:"notApplied"`
	// Pairs of SeveralFaults had two faults, and LargerCombinations had more.
	Pairs              int `json:"pairs"`
	LargerCombinations int `json:"largerCombinations"`
	// Places are the places of single faults, and Coverage what was covered of each kind of write, with --list.
	Places   []place        `json:"places,omitempty"`
	Coverage []coverage.Row `json:"coverage,omitempty"`
	// KeptRuns is the directory of the passing runs, and KeptRunCount their number, with --keep-runs.
	KeptRuns     string `json:"keptRuns,omitempty"`
	KeptRunCount int    `json:"keptRunCount,omitempty"`
	// RepeatRuns is the number of further runs, which repeated failures. Runs does not include them.
	RepeatRuns     int      `json:"repeatRuns"`
	Seconds        float64  `json:"seconds"`
	NeverSeen      []string `json:"neverSeen,omitempty"`
	StaleWriteRuns int      `json:"staleWriteRuns"`
	// NotCompared are the parts of final states that differ between runs without faults or change periodically.
	NotCompared []string `json:"notCompared,omitempty"`
	// Failures are the failures that reproduce, and Failure is the first of them. SeenOnce are those that do not.
	Failure  *failure  `json:"failure,omitempty"`
	Failures []failure `json:"failures,omitempty"`
	SeenOnce []failure `json:"seenOnce,omitempty"`
}

// testResult is the output of test for programs.
type testResult struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Scenarios  []verdict `json:"scenarios"`
}

// failure is the invariant that was violated.
type failure struct {
	Invariant string   `json:"invariant"`
	Message   string   `json:"message"`
	Cause     string   `json:"cause,omitempty"`
	Faults    []string `json:"faults"`
	Run       int      `json:"run"`
	Grade     string   `json:"grade"`
	// Repeats runs repeated it, and Reproduced of them failed in the same way.
	Reproduced int `json:"reproduced"`
	Repeats    int `json:"repeats"`
	// Times is how many runs of the search failed in this way, without repeats.
	Times int `json:"times"`
	// WithoutFaults counts the runs without faults, if some of them failed in the same way. WithoutDelay counts
	// those before a delay was added that raises the rate, with the faults in FaultsWithoutDelay.
	WithoutFaults      *rate    `json:"withoutFaults,omitempty"`
	WithoutDelay       *rate    `json:"withoutDelay,omitempty"`
	FaultsWithoutDelay []string `json:"faultsWithoutDelay,omitempty"`
	// Switch is what the scenario writes to accept the failure of an automatic invariant.
	Switch string `json:"switch,omitempty"`
	File   string `json:"file,omitempty"` // empty: it could not be stored
}

// rate is how many of several runs failed in the same way.
type rate struct {
	Reproduced int `json:"reproduced"`
	Repeats    int `json:"repeats"`
}

// add adds the result of a scenario. It returns errors of this program, not of the controller under test.
func (v *verdicts) add(s *scenario.Scenario, command []string, r *sim.Result, err error) error {
	one := verdict{Scenario: s.Name, File: s.File, Verdict: "passed"}
	var usage *console.UsageError
	switch {
	case errors.As(err, &usage):
		return err
	case errors.Is(err, context.Canceled):
		one.Verdict = "interrupted"
	case err != nil:
		one.Verdict, one.Reason = "inconclusive", console.Message(err)
		if isClientError(err) {
			one.Reason = err.Error() // with its line breaks
		}
	}
	if r == nil {
		r = &sim.Result{}
	}
	one.Runs, one.Seconds = r.Runs, r.Elapsed.Seconds()
	one.SingleFaults, one.SingleFaultsTotal, one.SeveralFaults = r.Systematic, r.SystematicTotal, r.Random
	one.RedundantSingleFaults, one.NotApplied = r.Redundant, r.NotApplied
	one.Pairs, one.LargerCombinations = r.Pairs, r.Larger
	one.NotCompared = r.NotCompared
	if v.o.list {
		one.Places, one.Coverage = placesOf(r.Places), r.Coverage
	}
	if v.keep.err != nil {
		v.a.Say("rehearse: %s: --keep-runs: %v", s.Name, v.keep.err)
	}
	if one.KeptRunCount = len(v.keep.hashes); one.KeptRunCount > 0 {
		one.KeptRuns = v.keep.dir
		if err := report.WriteCoverage(report.CoverageFileIn(v.keep.dir), r.Coverage); err != nil {
			v.a.Say("rehearse: %s: --keep-runs: %v", s.Name, err)
		}
	}
	one.StaleWriteRuns = r.Reported
	one.RepeatRuns = r.Repeats
	for _, f := range r.Failures {
		one.Failures = append(one.Failures, v.describe(s, command, r, f, &one))
	}
	for _, f := range r.SeenOnce {
		one.SeenOnce = append(one.SeenOnce, v.describe(s, command, r, f, &one))
		v.reports[len(v.reports)-1].SeenOnce = !v.o.strict
	}
	switch {
	case len(one.Failures) > 0:
		one.Verdict, one.Failure = "failed", &one.Failures[0]
	case one.Verdict != "passed":
	case r.Baseline == nil:
		one.Verdict, one.Reason = "inconclusive", r.Stopped
	case r.Stopped == "interrupted":
		one.Verdict = "interrupted"
	case r.Stopped != "" && r.Runs < 4:
		one.Verdict, one.Reason = "inconclusive", r.Stopped
	default:
		one.Reason = r.Stopped
		if one.NeverSeen = r.Unseen(); len(one.NeverSeen) > 0 {
			one.Verdict = "failed"
			one.Reason = "never observed: " + strings.Join(one.NeverSeen, "; ") + "; the scenario does not cause it, or the search is too short"
		}
	}
	if len(one.SeenOnce) > 0 && one.Verdict == "passed" && v.o.strict {
		one.Verdict, one.Reason = "failed", console.Count(len(one.SeenOnce), "failure")+" seen once, with --strict"
	}
	if len(one.NeverSeen) > 0 || one.Verdict == "inconclusive" {
		v.reports = append(v.reports, withoutRun(s, &one))
	}
	if len(one.SeenOnce) > 0 && len(one.Failures) == 0 && !v.o.strict {
		why := "repeating the run did not reproduce it"
		if !slices.ContainsFunc(one.SeenOnce, func(f failure) bool { return f.Repeats > 0 }) {
			why = "the search ended before the run was repeated"
		}
		v.a.Say("rehearse: %s: warning: %s seen once: %s; --strict makes this an error", s.Name, console.Count(len(one.SeenOnce), "failure"), why)
	}
	if r.Baseline != nil && r.Failure == nil {
		v.reports = append(v.reports, report.Of(s.File, r.Baseline, nil))
	}
	v.all = append(v.all, one)
	if v.o.format.String() == "text" {
		return v.print(&one, r)
	}
	return nil
}

// withoutRun is the report of a verdict that no single run shows: a Sometimes invariant that never held, or a search that could not begin.
func withoutRun(s *scenario.Scenario, one *verdict) *report.Run {
	run := &history.Run{Header: history.Header{Test: s.File}, Inconclusive: one.Reason}
	if one.Verdict == "failed" {
		run.Inconclusive, run.Failure = "", &history.Failure{Oracle: "sometimes", Message: one.Reason}
	}
	return report.Of(s.File, run, nil)
}

// describe stores a failed run and returns it as programs read it. If it cannot be stored, one.Reason says why, and the
// failure is reported nevertheless.
func (v *verdicts) describe(s *scenario.Scenario, command []string, r *sim.Result, f *sim.Failure, one *verdict) failure {
	file, err := v.store(s, command, r, f)
	if err != nil {
		one.Reason = fmt.Sprintf("store the failed run: %v", err)
		v.a.Say("rehearse: %s: %s", s.Name, one.Reason)
		file = ""
	}
	v.reports = append(v.reports, report.Of(cmp.Or(file, s.Name), f.Run, f.Nearest))
	d := failure{
		Invariant: f.Run.Failure.Oracle, Message: f.Run.Failure.Message, Cause: report.Cause(f.Run, f.Nearest),
		Faults: fault.Strings(f.Plan.Faults), Run: f.FoundAfter, Grade: f.Grade(),
		Reproduced: f.Same, Repeats: f.Repeats, Times: f.Times, Switch: f.Run.Failure.Switch, File: file,
	}
	if t := f.WithoutFaults; t.Same > 0 {
		d.WithoutFaults = &rate{t.Same, t.Repeats}
	}
	if f.Shrunk != nil {
		d.WithoutDelay, d.FaultsWithoutDelay = &rate{f.Shrunk.Same, f.Shrunk.Repeats}, fault.Strings(f.Shrunk.Faults)
	}
	return d
}

// checkWritable checks that a directory for failed runs can be written, without creating it: after the search it is too
// late to find out.
func checkWritable(dir string) error {
	at, err := filepath.Abs(dir)
	for ; err == nil; at = filepath.Dir(at) {
		var info os.FileInfo
		if info, err = os.Stat(at); errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			err = nil
			continue
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", at)
		}
		break
	}
	if err != nil {
		return err
	}
	probe, err := os.CreateTemp(at, ".rehearse-*")
	if err != nil {
		return fmt.Errorf("%s is not writable: %w", at, errors.Unwrap(err))
	}
	_ = probe.Close()
	return os.Remove(probe.Name())
}

// store writes a failed run, the nearest passing run, and the coverage of the search to files.
func (v *verdicts) store(s *scenario.Scenario, command []string, r *sim.Result, f *sim.Failure) (string, error) {
	dir := filepath.Join(v.o.failures, s.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if v.o.target.given() {
		command = history.ConcealArguments(command)
	}
	file := filepath.Join(dir, f.Run.Hash().String()+".jsonl")
	f.Run.Command = command
	if err := report.WriteFile(file, f.Run); err != nil {
		return "", err
	}
	if err := report.WriteCoverage(report.CoverageFile(file), r.Coverage); err != nil {
		return file, err
	}
	if f.Nearest == nil {
		return file, nil
	}
	f.Nearest.Command = command
	return file, report.WriteFile(report.NearestFile(file), f.Nearest)
}

// print prints the verdict of a scenario as text.
func (v *verdicts) print(one *verdict, r *sim.Result) error {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	tried := fmt.Sprintf("%s in %s", r.Tried(), r.Elapsed.Round(100*time.Millisecond))
	switch one.Verdict {
	case "passed":
		line("%s: passed: %s", one.Scenario, tried)
		if one.Reason != "" {
			line("    %s", one.Reason)
		}
		v.printStale(line, r)
	case "failed":
		for n, f := range r.Failures {
			if n > 0 {
				b.WriteByte('\n')
			}
			v.printFailure(&b, one, &one.Failures[n], f)
		}
		if len(r.Failures) == 0 {
			line("%s: %s (%s)", one.Scenario, one.Reason, tried)
			break
		}
		if v.o.keepGoing {
			line("\n%s: %s", one.Scenario, console.Count(len(r.Failures), "different failure"))
		}
		line("tried: %s", tried)
	case "interrupted":
		line("%s: interrupted; passed until then: %s", one.Scenario, tried)
	}
	if len(one.NotCompared) > 0 {
		line("    not compared, because runs without faults differ in it: %s", strings.Join(one.NotCompared, ", "))
	}
	if one.KeptRuns != "" {
		line("    %s in %s; show one: rehearse report FILE", console.Count(one.KeptRunCount, "passing run"), one.KeptRuns)
	}
	if v.o.list && r.Baseline != nil {
		line("    single faults that were tried, at each place:")
		b.WriteString(sim.ListPlaces(r.Places))
		line("    what was covered of each kind of write:")
		b.WriteString(coverage.List(r.Coverage))
	}
	for n := range one.SeenOnce {
		printSeenOnce(line, &one.SeenOnce[n])
	}
	_, err := v.a.Out.Write(b.Bytes())
	return err
}

func (v *verdicts) printStale(line func(string, ...any), r *sim.Result) {
	if r.Reported == 0 {
		return
	}
	line("    in %s, a controller decided a write on a view that was older than its own last write (inferred from the order of requests); first in run %d:",
		console.Count(r.Reported, "run"), r.Report.Run)
	line("      %s", r.Report.Text)
}

// printSeenOnce prints a failure that does not reproduce.
func printSeenOnce(line func(string, ...any), f *failure) {
	line("    seen once, %s: %s: %s", f.Grade, f.Invariant, f.Message)
	if f.Times > 1 {
		line("      in %d runs of the search, first in run %d", f.Times, f.Run)
	} else {
		line("      in run %d", f.Run)
	}
	for _, text := range f.Faults {
		line("      with %s", text)
	}
	if f.File != "" {
		line("      replay: rehearse replay %s --times 20", f.File)
	}
}

func (v *verdicts) printFailure(b *bytes.Buffer, one *verdict, described *failure, f *sim.Failure) {
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	line("%s: FAILED: %s: %s", one.Scenario, described.Invariant, described.Message)
	b.WriteString(f.Summary(described.Cause, strconv.Itoa(one.Runs)).String())
	if f.Times > 1 {
		line("%d runs of the search failed in this way", f.Times)
	}
	b.WriteByte('\n')
	lanes := report.LaneOptions{Around: around, Colour: v.a.Colour()}
	if err := report.Lanes(b, f.Run, lanes); err != nil {
		line("%v", err)
	}
	if described.File == "" {
		return
	}
	times := ""
	if f.Same < f.Repeats {
		times = fmt.Sprintf(" --times %d", f.Repeats)
	}
	line("\nreplay: rehearse replay %s%s", described.File, times)
	line("report: rehearse report %s -o html --output report.html", described.File)
}

// conclude prints the output for programs, and returns the error with the exit code.
func (v *verdicts) conclude(ctx context.Context) error {
	switch v.o.format.String() {
	case "json":
		enc := json.NewEncoder(v.a.Out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(testResult{APIVersion: console.APIVersion, Kind: "TestResult", Scenarios: v.all}); err != nil {
			return err
		}
	case "junit":
		if err := report.WriteJUnit(v.a.Out, report.New(v.reports...), report.LaneOptions{Around: around}); err != nil {
			return err
		}
	}
	failed, worst := false, error(nil)
	for i := range v.all {
		switch one := &v.all[i]; one.Verdict {
		case "failed":
			failed = true
		case "inconclusive":
			v.sayError(worst)
			worst = &console.InconclusiveError{Message: fmt.Sprintf("%s: %s", one.Scenario, one.Reason)}
		}
	}
	switch {
	case failed:
		v.sayError(worst)
		return &console.ExitError{Code: console.ExitFailed}
	case ctx.Err() != nil:
		v.sayError(worst)
		return console.ErrInterrupted
	}
	return worst
}

// sayError prints the error of a scenario, when the command ends with that of another one.
func (v *verdicts) sayError(err error) {
	if err != nil {
		v.a.Say("rehearse: %s", console.Message(err))
	}
}
