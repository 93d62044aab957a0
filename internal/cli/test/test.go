package test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/rehearsal"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// testOptions are the flags of test.
type testOptions struct {
	rehearsalOptions
	format   console.Output
	runs     int
	seed     uint64
	level    string
	budget   time.Duration
	failures string
	dryRun   bool
}

func (a *app) testCommand() *cobra.Command {
	o := &testOptions{format: console.NewOutput("text", "text", "json", "junit")}
	cmd := &cobra.Command{
		Use:   "test SCENARIO... [-- COMMAND]",
		Short: "Rehearse a controller, in any language: search the orders of events that break it",
		Long: `Play a scenario again and again against a real Kubernetes API, with the controller under test as a process of its own.

Between the controller and the API stands a proxy that shapes what this one client sees, within what Kubernetes allows:
events that come late, watches that expire, answers that are lost, conflicts, crashes at a write. The first runs go
without faults; then each fault is tried at each place where it could matter, then several at once. What fails is repeated,
made small, told in lanes (what was true, what the controller believed), and kept in a file for 'rehearse replay' and
'rehearse report'.

SCENARIO is a file (docs/reference/scenario.md), or one that is built in: ` + strings.Join(scenario.BuiltinNames(), ", ") + `.
COMMAND is the controller, for a scenario that leaves it open. In its arguments {{kubeconfig}} is the file by which it
reaches the API, and {{port}} a free port; KUBECONFIG names the same file. Its leader election should be off: a process
that was killed leaves a lease behind, and the next one waits for it.

Exit code 0: held; 1: a promise was broken; 2: usage; 3: nothing can be concluded; 130: interrupted.`,
		Example: `  rehearse test job -- ./my-job-controller --kubeconfig={{kubeconfig}} --leader-elect=false
  rehearse test scenario.yaml
  rehearse test scenario.yaml --budget 10m --level seen -o junit > report.xml
  rehearse test scenario.yaml --dry-run`,
		ValidArgsFunction: cobra.FixedCompletions(scenario.BuiltinNames(), cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, command, err := beforeDash(cmd, args)
			if err != nil {
				return err
			}
			if err := o.validate(cmd, files); err != nil {
				return err
			}
			return a.test(cmd.Context(), o, files, command)
		},
	}
	f := cmd.Flags()
	o.format.AddFlag(cmd, "output")
	f.IntVar(&o.runs, "runs", 0, "how many runs there are at most (default: what the scenario says, or 200)")
	f.IntVar(&o.runs, "seeds", 0, "the same as --runs")
	_ = f.MarkHidden("seeds")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the first run")
	f.StringVar(&o.level, "level", "", "faults up to legal, seen or adversarial (default: what the scenario says, or legal)")
	_ = cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions([]string{"legal", "seen", "adversarial"}, cobra.ShellCompDirectiveNoFileComp))
	f.DurationVar(&o.budget, "budget", 0, "how long the search takes at most (default: what the scenario says, or 5m)")
	f.StringVar(&o.failures, "failures", "failures", "directory in which failed runs are kept, by scenario")
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what would run")
	o.addFlags(cmd)
	return cmd
}

func (o *testOptions) validate(cmd *cobra.Command, files []string) error {
	changed := cmd.Flags().Changed
	switch {
	case len(files) == 0:
		return console.Usagef("test needs a SCENARIO: a file, or one of %s", strings.Join(scenario.BuiltinNames(), ", "))
	case (changed("runs") || changed("seeds")) && o.runs < 1:
		return console.Usagef("--runs %d: must be at least 1", o.runs)
	case changed("budget") && o.budget <= 0:
		return console.Usagef("--budget %s: must be longer than nothing", o.budget)
	case o.failures == "":
		return console.Usagef("--failures is empty")
	}
	return o.rehearsalOptions.validate(cmd)
}

// beforeDash parts arguments from the COMMAND that follows "--"; nil: there is none.
func beforeDash(cmd *cobra.Command, args []string) (before, command []string, err error) {
	at := cmd.ArgsLenAtDash()
	switch {
	case at < 0:
		return args, nil, nil
	case at == len(args):
		return nil, nil, console.Usagef("there is no COMMAND after --")
	}
	return args[:at], args[at:], nil
}

// test plays scenarios, one after the other.
func (a *app) test(ctx context.Context, o *testOptions, files, command []string) error {
	var all []*scenario.Scenario
	for _, name := range files {
		s, err := a.readScenario(name, command)
		if err == nil && o.level != "" {
			var level fault.Level
			if level, err = fault.ParseLevel(o.level); err != nil {
				return console.Usagef("--level: %v", err)
			}
			err = s.SetLevel(level)
		}
		if err != nil {
			return console.Usagef("%v", err)
		}
		if err := checkScenario(s); err != nil {
			return console.Usagef("%v", err)
		}
		if missing := s.NeedsCommand(); missing != "" && !o.dryRun {
			return console.Usagef("%s: client %s has no command: give it as in 'rehearse test %s -- COMMAND'", s.File, missing, name)
		}
		if o.runs > 0 {
			s.Runs = o.runs
		}
		if o.budget > 0 {
			s.Budget = o.budget
		}
		all = append(all, s)
	}
	if o.dryRun {
		for _, s := range all {
			if err := s.Describe(a.Out); err != nil {
				return err
			}
		}
		return nil
	}
	if err := canKeep(o.failures); err != nil {
		return console.Usagef("--failures %s: %v", o.failures, err)
	}
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	v := &verdicts{a: a, o: o}
	for _, s := range all {
		result, err := a.rehearse(ctx, o, s)
		if err := v.add(s, command, result, err); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return v.conclude(ctx)
}

// rehearse searches one scenario.
func (a *app) rehearse(ctx context.Context, o *testOptions, s *scenario.Scenario) (*sim.Result, error) {
	r, err := a.openRehearsal(ctx, &o.rehearsalOptions, s)
	if err != nil {
		return nil, err
	}
	p := a.newSearchProgress(s)
	result, err := sim.Search(ctx, r.arena, sim.Options{
		Seed: o.seed, Runs: s.Runs, Budget: s.Budget, Level: s.Level, Patterns: s.Patterns, Live: true, Parallel: o.parallel,
		Progress: p.ran,
	})
	p.Clear()
	left := r.close()
	if left != nil && (err != nil || ctx.Err() != nil || result.Failure != nil) {
		a.Say("rehearse: %s", console.Message(left)) // the verdict is about something else
		return result, err
	}
	return result, cmp.Or(err, left)
}

// readScenario reads a scenario by its file, or by the name of one that is built in.
func (a *app) readScenario(name string, command []string) (*scenario.Scenario, error) {
	data, readFile, err := []byte(nil), os.ReadFile, error(nil)
	if data, err = os.ReadFile(name); errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, `/\`) {
		builtin, found := scenario.ReadBuiltin(strings.TrimSuffix(name, filepath.Ext(name)))
		if found == nil {
			data, err = builtin, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w; built in are: %s", err, strings.Join(scenario.BuiltinNames(), ", "))
	}
	s, err := scenario.Read(name, data, readFile)
	if err == nil && len(command) > 0 {
		err = s.SetCommand(command)
	}
	return s, err
}

// defaultParallel is how many runs go on side by side: most of a run is waiting.
func defaultParallel() int { return 4 * runtime.NumCPU() }

// asClientError tells whether an error is about a client that cannot be rehearsed.
func asClientError(err error) bool {
	var client *rehearsal.ClientError
	var story *rehearsal.StoryError
	return errors.As(err, &client) || errors.As(err, &story)
}
