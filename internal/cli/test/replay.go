package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	rehearsalOptions
	scenario string
	times    int
}

func (a *app) replayCommand() *cobra.Command {
	o := &replayOptions{}
	cmd := &cobra.Command{
		Use:   "replay FILE [-- COMMAND]",
		Short: "Run a recorded run again, with the same controller or a newer one",
		Long: `Run a failure that 'rehearse test' stored again, with the faults that it was shrunk to, and report whether it still fails;
or a passing run (rehearse test --keep-runs), and report whether it still passes.

replay uses the recorded scenario and command; COMMAND replaces the recorded command. It starts with runs without faults, to
compare the final state of the other runs with theirs.

Exit code 0: it passes; 1: it still fails, or another invariant is violated; 3: inconclusive.`,
		Example: `  rehearse replay failures/job/8a7e0c51d2b3f604.jsonl
  rehearse replay failures/job/8a7e0c51d2b3f604.jsonl -- ./my-job-controller-fixed --kubeconfig={{kubeconfig}}`,
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, command, err := beforeDash(cmd, args)
			if err != nil {
				return err
			}
			switch {
			case len(files) != 1:
				return console.Usagef("replay requires one FILE that 'rehearse test' wrote")
			case o.times < 1:
				return console.Usagef("--times %d: must be at least 1", o.times)
			}
			if err := o.validate(cmd); err != nil {
				return err
			}
			return a.replay(cmd.Context(), o, files[0], command)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.scenario, "scenario", "", "the scenario's file, if it is not at the recorded path")
	f.IntVar(&o.times, "times", 3, "number of runs with the recorded faults")
	o.addFlags(cmd)
	return cmd
}

// replay runs a stored failure again.
func (a *app) replay(ctx context.Context, o *replayOptions, file string, command []string) error {
	recorded, err := a.readRun(file)
	if err != nil {
		return err
	}
	if !recorded.Live {
		return console.Usagef("%s is a run of the Go test %s; replay it in the package of the test: go test -run %s -simtest.replay=%s", file, recorded.Test, recorded.Test, file)
	}
	faults, err := fault.ParseAll(recorded.Faults)
	if err != nil {
		return &console.InconclusiveError{Message: fmt.Sprintf("%s: %v", file, err)}
	}
	name := recorded.Test
	if o.scenario != "" {
		name = o.scenario
	}
	if command == nil {
		command = recorded.Command
		for _, argument := range command {
			if strings.Contains(argument, history.Hidden) {
				return console.Usagef("%s: argument %q of the recorded command contains a secret, which is not recorded; pass the command: rehearse replay %s -- COMMAND", file, argument, file)
			}
		}
	}
	s, err := a.readScenario(name, command)
	if err == nil {
		err = checkScenario(s)
	}
	if err != nil {
		return console.Usagef("read the scenario of %s: %v; pass its path with --scenario", file, err)
	}
	if missing := s.NeedsCommand(); missing != "" {
		return console.Usagef("%s: client %s has no command; pass it: rehearse replay %s -- COMMAND", file, missing, file)
	}
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	r, err := a.openRehearsal(ctx, &o.rehearsalOptions, s)
	if ctx.Err() != nil {
		return console.ErrInterrupted
	}
	if err != nil {
		return inconclusive(err)
	}
	p := a.NewProgress()
	p.Show("%s: three runs without faults, then %s with them", s.Name, console.Count(o.times, "run"))
	outs, err := sim.Replay(ctx, r.harness, sim.Options{Seed: recorded.Seed, Live: true, Parallel: o.parallel, Compare: sim.NeedsBaseline(recorded)}, sim.Plan{Seed: recorded.Seed, Faults: faults}, o.times)
	p.Clear()
	left := r.close()
	if left != nil {
		a.Say("rehearse: %s", console.Message(left))
	}
	if ctx.Err() != nil {
		return console.ErrInterrupted
	}
	var baseline *sim.BaselineError
	switch {
	case errors.As(err, &baseline):
		a.Say("%s: %v", file, err)
		return a.printFailed(baseline.Outcome.Run)
	case err != nil:
		return inconclusive(err)
	}
	if err := a.compare(file, recorded, outs); err != nil || left == nil {
		return err
	}
	return &console.ExitError{Code: console.ExitInconclusive}
}

// inconclusive is an error that leaves the result open, unless it is a usage error.
func inconclusive(err error) error {
	var usage *console.UsageError
	if errors.As(err, &usage) {
		return err
	}
	return &console.InconclusiveError{Message: err.Error()}
}

// compare prints the result of the runs, and returns the error with the exit code.
func (a *app) compare(file string, recorded *history.Run, outs []*sim.Outcome) error {
	var same, other []*history.Run
	without := 0 // runs that passed, and in which a fault did not happen
	var unmet []fault.Fault
	for _, out := range outs {
		switch f := out.Run.Failure; {
		case f == nil && len(out.Unmet) > 0:
			without, unmet = without+1, out.Unmet
		case f == nil:
		case recorded.Failure != nil && f.Oracle == recorded.Failure.Oracle:
			same = append(same, out.Run)
		default:
			other = append(other, out.Run)
		}
	}
	passed := len(outs) - len(same) - len(other)
	note := ""
	if without > 0 {
		note = fmt.Sprintf("; in %d of them not every fault happened: %s met no request", without, strings.Join(fault.Strings(unmet), "; "))
	}
	switch {
	case len(same) > 0:
		fmt.Fprintf(a.Out, "%s: still fails, %d of %d: %s: %s\n", file, len(same), len(outs), same[0].Failure.Oracle, same[0].Failure.Message)
		return a.printFailed(shortest(same))
	case len(other) > 0 && recorded.Failure == nil:
		fmt.Fprintf(a.Out, "%s: passed when it was recorded and fails now, %d of %d: %s: %s\n", file, len(other), len(outs), other[0].Failure.Oracle, other[0].Failure.Message)
		return a.printFailed(shortest(other))
	case len(other) > 0:
		fmt.Fprintf(a.Out, "%s: another invariant is violated, %d of %d: %s: %s\n", file, len(other), len(outs), other[0].Failure.Oracle, other[0].Failure.Message)
		return a.printFailed(shortest(other))
	case without == passed && recorded.Failure != nil:
		return &console.InconclusiveError{Message: fmt.Sprintf("%s: every invariant holds in %s, but without every fault, so the runs say nothing about the failure: %s met no request; search again with 'rehearse test'",
			file, console.Count(passed, "run"), strings.Join(fault.Strings(unmet), "; "))}
	case recorded.Failure == nil:
		fmt.Fprintf(a.Out, "%s: passes, as recorded, in %s%s\n", file, console.Count(passed, "run"), note)
	default:
		fmt.Fprintf(a.Out, "%s: no longer fails: every invariant holds in %s%s\n", file, console.Count(passed, "run"), note)
	}
	return nil
}

func shortest(runs []*history.Run) *history.Run {
	return slices.MinFunc(runs, func(a, b *history.Run) int { return len(a.Steps) - len(b.Steps) })
}

// printFailed prints a run that failed, and returns the error with its exit code.
func (a *app) printFailed(run *history.Run) error {
	if cause := report.Cause(run, nil); cause != "" {
		fmt.Fprintf(a.Out, "cause: %s\n", cause)
	}
	fmt.Fprintf(a.Out, "violated at step %d, %s after the start\n", run.Failure.Step, run.Failure.At.Round(time.Millisecond))
	for _, f := range run.Faults {
		fmt.Fprintf(a.Out, "    %s\n", strings.TrimSpace(f))
	}
	fmt.Fprintln(a.Out)
	lanes := report.LaneOptions{Around: around, Colour: a.Colour()}
	if err := report.Lanes(a.Out, run, lanes); err != nil {
		return err
	}
	return &console.ExitError{Code: console.ExitFailed}
}
