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
	recording recordingOptions
	format    console.Output
	runs      int
	seed      uint64
	level     string
	budget    time.Duration
	failures  string
	keepRuns  string
	corpus    string
	list      bool
	dryRun    bool
	// keepGoing continues after a failure that reproduces; strict fails on one that does not.
	keepGoing, strict bool
}

func (a *app) testCommand() *cobra.Command {
	o := &testOptions{format: console.NewOutput("text", "text", "json", "junit")}
	cmd := &cobra.Command{
		Use:   "test [SCENARIO...] [-- COMMAND]",
		Short: "Test a controller, in any language, against late, lost and reordered events",
		Long: `Run a scenario many times against a real Kubernetes API, with the controller under test as a separate process.

A proxy between the controller and the API injects faults that Kubernetes allows: late events, expired watches, lost
answers, conflicts, crashes at a write. The first runs have no faults. Then test tries each fault at each place where it can
matter (--list shows these places), then several faults together. It repeats a failure, shrinks it to the faults that it needs,
shows it in lanes (the state of the API and the controller's view of it), and stores it in a file for 'rehearse replay' and
'rehearse report'.

test repeats a failure 3 times, and up to 20 times if it depends on timing. A failure that reproduces ends the search. A failure
that reproduces less than twice counts as seen once: test stores and lists it, and continues the search.

SCENARIO is a file (docs/reference/scenario.md), or a built-in scenario: ` + strings.Join(scenario.BuiltinNames(), ", ") + `.
COMMAND starts the controller, unless the scenario contains a command. In its arguments, test replaces {{kubeconfig}} with the
path of the kubeconfig that the controller must use (also in the variable KUBECONFIG), and {{port}} with a free port. Disable
leader election: otherwise the next process waits until the lease of the killed one expires.

--from-recording makes a scenario of what users did in a cluster (rehearse snapshot record): the objects that users made exist
before each run, and each action of a user is a step. test writes it to a file, which you can edit and pass as SCENARIO.

If stderr is not a terminal, test prints a line of progress every 30 seconds.

Exit code 0: passed; 1: an invariant was violated; 2: usage; 3: inconclusive, or a pattern of spec.faults.only matches
nothing; 130: interrupted.`,
		Example: `  rehearse test job -- ./my-job-controller --kubeconfig={{kubeconfig}} --leader-elect=false
  rehearse test scenario.yaml
  rehearse test scenario.yaml --budget 10m --level seen -o junit > report.xml
  rehearse test scenario.yaml --dry-run
  rehearse test --from-recording shop.yaml -- ./my-operator --kubeconfig={{kubeconfig}}`,
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
	f.IntVar(&o.runs, "runs", 0, "maximum number of runs (default: as in the scenario, or 200)")
	f.IntVar(&o.runs, "seeds", 0, "same as --runs")
	_ = f.MarkHidden("seeds")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the first run")
	f.StringVar(&o.level, "level", "", "highest level of faults: legal, seen or adversarial (default: as in the scenario, or legal)")
	_ = cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions([]string{"legal", "seen", "adversarial"}, cobra.ShellCompDirectiveNoFileComp))
	f.DurationVar(&o.budget, "budget", 0, "maximum duration of the search (default: as in the scenario, or 5m)")
	f.StringVar(&o.failures, "failures", "failures", "directory to store failed runs in, by scenario")
	f.StringVar(&o.keepRuns, "keep-runs", "", "directory to store every passing run in, by scenario, for replay and report")
	f.StringVar(&o.corpus, "corpus", "", "directory with the fault plans that showed new behaviour, by scenario: the search starts from them and adds its own")
	f.BoolVar(&o.list, "list", false, "list the places at which faults can act, with how many faults were tried there, and what was covered of each kind of write")
	f.BoolVar(&o.keepGoing, "keep-going", false, "continue the search after a failure that reproduces, and list each different failure")
	f.BoolVar(&o.strict, "strict", false, "exit with 1 if a failure was seen once, that is, if it does not reproduce")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would run, and start nothing")
	o.recording.addFlags(cmd)
	o.addFlags(cmd)
	return cmd
}

func (o *testOptions) validate(cmd *cobra.Command, files []string) error {
	changed := cmd.Flags().Changed
	switch {
	case len(files) == 0 && o.recording.file == "":
		return console.Usagef("test requires a SCENARIO: a file, or one of %s", strings.Join(scenario.BuiltinNames(), ", "))
	case (changed("runs") || changed("seeds")) && o.runs < 1:
		return console.Usagef("--runs %d: must be at least 1", o.runs)
	case changed("budget") && o.budget <= 0:
		return console.Usagef("--budget %s: must be more than 0", o.budget)
	case o.failures == "":
		return console.Usagef("--failures is empty")
	case changed("corpus") && o.corpus == "":
		return console.Usagef("--corpus is empty")
	case changed("keep-runs") && o.keepRuns == "":
		return console.Usagef("--keep-runs is empty")
	}
	if err := o.recording.validate(cmd, files); err != nil {
		return err
	}
	return o.rehearsalOptions.validate(cmd)
}

// beforeDash splits arguments at "--" and returns the COMMAND after it, nil if "--" is absent.
func beforeDash(cmd *cobra.Command, args []string) (before, command []string, err error) {
	at := cmd.ArgsLenAtDash()
	switch {
	case at < 0:
		return args, nil, nil
	case at == len(args):
		return nil, nil, console.Usagef("COMMAND is missing after --")
	}
	return args[:at], args[at:], nil
}

// test runs scenarios, one after another.
func (a *app) test(ctx context.Context, o *testOptions, files, command []string) error {
	if o.recording.file != "" {
		base := ""
		if len(files) > 0 { // one at most: validate has checked it
			base = files[0]
		}
		file, err := a.fromRecording(o, base)
		if err != nil {
			return err
		}
		files = []string{file}
	}
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
			return console.Usagef("%s: client %s has no command; pass it: rehearse test %s -- COMMAND", s.File, missing, name)
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
	if err := checkWritable(o.failures); err != nil {
		return console.Usagef("--failures %s: %v", o.failures, err)
	}
	if o.corpus != "" {
		if err := checkWritable(o.corpus); err != nil {
			return console.Usagef("--corpus %s: %v", o.corpus, err)
		}
	}
	if o.keepRuns != "" {
		if err := checkWritable(o.keepRuns); err != nil {
			return console.Usagef("--keep-runs %s: %v", o.keepRuns, err)
		}
	}
	corpora := make([][]sim.Plan, len(all)) // all are read before the first search: one that is invalid must not hide a result
	for i, s := range all {
		var err error
		if corpora[i], err = o.loadCorpus(s); err != nil {
			return err
		}
	}
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	v := &verdicts{a: a, o: o}
	for i, s := range all {
		keep := newRunKeeper(o, s.Name, command)
		result, err := a.rehearse(ctx, o, s, corpora[i], keep)
		v.keep = keep
		if err := v.add(s, command, result, err); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return v.conclude(ctx)
}

// loadCorpus reads the plans that earlier searches of a scenario have kept.
func (o *testOptions) loadCorpus(s *scenario.Scenario) ([]sim.Plan, error) {
	if o.corpus == "" {
		return nil, nil
	}
	plans, err := sim.LoadCorpus(o.corpusFile(s))
	if err != nil {
		return nil, console.Usagef("--corpus: %v", err)
	}
	return plans, nil
}

func (o *testOptions) corpusFile(s *scenario.Scenario) string {
	return filepath.Join(o.corpus, s.Name+".jsonl")
}

// rehearse searches one scenario. It begins with the plans of earlier searches.
func (a *app) rehearse(ctx context.Context, o *testOptions, s *scenario.Scenario, earlier []sim.Plan, keep *runKeeper) (*sim.Result, error) {
	r, err := a.openRehearsal(ctx, &o.rehearsalOptions, s)
	if err != nil {
		return nil, err
	}
	p := a.startProgress(s)
	result, err := sim.Search(ctx, r.harness, sim.Options{
		Seed: o.seed, Runs: s.Runs, Budget: s.Budget, Now: time.Now, Level: s.Level, Patterns: s.Patterns, Live: true, Parallel: o.parallel,
		Explicit:  len(s.Spec.Faults.Only) > 0,
		KeepGoing: o.keepGoing,
		Corpus:    earlier,
		Progress: func(so *sim.Result, last *sim.Outcome) {
			keep.ran(so, last)
			p.ran(so, last)
		},
		Repeats: p.repeated,
	})
	p.clear()
	if o.corpus != "" && result != nil {
		if err := sim.SaveCorpus(o.corpusFile(s), result.Corpus, earlier); err != nil {
			a.Say("rehearse: %s: --corpus: %v", s.Name, err)
		}
	}
	left := r.close()
	if left != nil && (err != nil || ctx.Err() != nil || result.Failure != nil) {
		a.Say("rehearse: %s", console.Message(left)) // the verdict comes first
		return result, err
	}
	return result, cmp.Or(err, left)
}

// readScenario reads a scenario from a file, or the built-in scenario of that name.
func (a *app) readScenario(name string, command []string) (*scenario.Scenario, error) {
	data, readFile, err := []byte(nil), os.ReadFile, error(nil)
	if data, err = os.ReadFile(name); errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, `/\`) {
		builtin, found := scenario.ReadBuiltin(strings.TrimSuffix(name, filepath.Ext(name)))
		if found == nil {
			data, err = builtin, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w; built-in scenarios: %s", err, strings.Join(scenario.BuiltinNames(), ", "))
	}
	s, err := scenario.Read(name, data, readFile)
	if err == nil && len(command) > 0 {
		err = s.SetCommand(command)
	}
	return s, err
}

// defaultParallel is the number of concurrent runs: a run mostly waits.
func defaultParallel() int { return 4 * runtime.NumCPU() }

// isClientError reports whether the client under test caused an error before the search could start.
func isClientError(err error) bool {
	var client *rehearsal.ClientError
	var step *rehearsal.ScenarioError
	return errors.As(err, &client) || errors.As(err, &step)
}
