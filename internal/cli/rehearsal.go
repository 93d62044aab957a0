package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/rehearsal"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/version"
	"github.com/rehearse-k8s/rehearse/scenario"
	"github.com/rehearse-k8s/rehearse/stage"
)

// rehearsalOptions are the flags that test and replay have in common.
type rehearsalOptions struct {
	parallel int
	logs     bool
	log      logOptions
	target   targetOptions
}

func (o *rehearsalOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.parallel, "parallel", defaultParallel(), "how many runs go on side by side; 1 for controllers that want a port of their own")
	f.BoolVar(&o.logs, "logs", false, "show on stderr what the clients print")
	f.IntVarP(&o.log.verbosity, "verbosity", "v", 0, "show the logs of Kubernetes on stderr, up to this level")
	f.StringVar(&o.log.format, "log-format", "text", "format of the logs: text|json")
	o.target.addFlags(f)
}

func (o *rehearsalOptions) validate(cmd *cobra.Command) error {
	if o.parallel < 1 {
		return usagef("--parallel %d: must be at least 1", o.parallel)
	}
	if o.target.given() {
		if cmd.Flags().Changed("parallel") && o.parallel > 1 {
			return usagef("--parallel %d: in a cluster that is there already one run goes on at a time", o.parallel)
		}
		o.parallel = 1
	}
	if err := o.target.validate(); err != nil {
		return err
	}
	return o.log.validate()
}

// openedRehearsal is an arena with the files and clusters it needs.
type openedRehearsal struct {
	arena *rehearsal.Arena
	dir   string
}

// checkScenario refuses names of controllers that nothing here has.
func checkScenario(s *scenario.Scenario) error {
	if err := cluster.CheckControllers(s.Controllers); err != nil {
		return s.Problem("spec.cluster.controllers", strings.TrimPrefix(err.Error(), "--controllers: "))
	}
	for i := range s.Clients {
		if name := s.Clients[i].Builtin; name != "" {
			if err := cluster.CheckControllers([]string{name}); err != nil || name == "*" || strings.HasPrefix(name, "-") {
				return s.Problem(fmt.Sprintf("spec.clients[%d].builtin", i), "no controller has this name here")
			}
		}
	}
	return nil
}

// openRehearsal starts the API that a scenario is played against.
func (a *app) openRehearsal(ctx context.Context, o *rehearsalOptions, s *scenario.Scenario) (*openedRehearsal, error) {
	var logs io.Writer = io.Discard
	o.log.setUp(logs, a.Err)
	dir, err := rehearsalDir()
	if err != nil {
		return nil, err
	}
	r := &openedRehearsal{dir: dir}
	stages, err := a.stagesOf(s)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	target, err := a.targetOf(&o.target, s)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	r.arena, err = rehearsal.Open(ctx, rehearsal.Options{
		Scenario: s, Target: target, QPS: o.target.qps, Dir: dir, Version: version.Get().Version, Conversions: cluster.Conversions(),
		Kinds: func(ctx context.Context, c *rest.Config) error { return cluster.EnsureKinds(ctx, c, kindsOf(s)) },
		Beside: func(ctx context.Context, config func(string) *rest.Config, pki string) (func(context.Context), error) {
			return cluster.Beside(ctx, config, s.Controllers, pki, stages)
		},
		Builtin: a.builtinCommand,
		Logs:    a.clientLogs(o),
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return r, nil
}

// rehearsalDir is a new directory, named after this process. Those of processes that were
// killed are removed.
func rehearsalDir() (string, error) {
	const prefix = "rehearse-test-"
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && !alive(n) {
			_ = os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// close ends the API, or gives the cluster back. Its error says what is not as it was.
func (r *openedRehearsal) close() error {
	err := r.arena.Close()
	_ = os.RemoveAll(r.dir)
	return err
}

func (a *app) stagesOf(s *scenario.Scenario) (*stage.Set, error) {
	if len(s.Stages) == 0 {
		return nil, nil
	}
	return cluster.LoadStages(s.Stages)
}

// kindsOf are the controllers whose kinds a scenario needs: a client may be one of them, or
// take its place.
func kindsOf(s *scenario.Scenario) []string {
	kinds := slices.DeleteFunc(slices.Clone(s.Controllers), func(c string) bool { return c == cluster.StageController })
	defined := false
	for _, o := range s.Objects {
		meta, _ := o["metadata"].(map[string]any)
		defined = defined || meta["name"] == "clonesets.apps.kruise.io"
	}
	if !defined && mentionsCloneSets(s) {
		kinds = append(kinds, cluster.CloneSet)
	}
	return kinds
}

func mentionsCloneSets(s *scenario.Scenario) bool {
	for i := range s.Clients {
		if s.Clients[i].Builtin == "cloneset" || s.Clients[i].Builtin == cluster.CloneSet {
			return true
		}
	}
	for i := range s.Steps {
		for _, o := range s.Steps[i].Objects {
			if o["kind"] == "CloneSet" {
				return true
			}
		}
	}
	return false
}

// clientLogs shows what clients print.
func (a *app) clientLogs(o *rehearsalOptions) func(int64, string, string) {
	if !o.logs {
		return nil
	}
	var mu sync.Mutex
	return func(run int64, client, line string) {
		mu.Lock()
		defer mu.Unlock()
		a.say("[run %d] %s: %s", run, client, line)
	}
}

// builtinCommand is how one of this program's own controllers is started as a client.
func (a *app) builtinCommand(name string, gates map[string]bool) []string {
	self, err := a.executable()
	if err != nil {
		self = os.Args[0]
	}
	command := []string{self, "controller", name, "--kubeconfig={{kubeconfig}}"}
	for gate, on := range gates {
		command = append(command, fmt.Sprintf("--feature-gates=%s=%t", gate, on))
	}
	slices.Sort(command[4:])
	return command
}

// controllerCommand is hidden: `rehearse test` starts it for clients that are built in.
func (a *app) controllerCommand() *cobra.Command {
	var kubeconfig string
	var gates []string
	var log logOptions
	cmd := &cobra.Command{
		Use: "controller NAME", Hidden: true, Short: "Run one controller against a cluster, until it is killed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			log.setUp(a.Err, io.Discard)
			slog.SetLogLoggerLevel(slog.LevelInfo)
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return usagef("--kubeconfig: %v", err)
			}
			config.QPS, config.Burst = 20, 30 // as kube-controller-manager has them
			if err := cluster.SetFeatureGates(gates); err != nil {
				return usagef("--feature-gates: %v", err)
			}
			ctx, stop := a.interruptible(cmd.Context())
			defer stop()
			dir, err := os.MkdirTemp("", "rehearse-controller-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			run, err := cluster.Beside(ctx, func(string) *rest.Config { return config }, args, filepath.Join(dir, "pki"), nil)
			if err != nil {
				return err
			}
			run(ctx)
			return errInterrupted
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringSliceVar(&gates, "feature-gates", nil, "Name=true|false, of kube-controller-manager")
	f.IntVarP(&log.verbosity, "verbosity", "v", 0, "level of the logs")
	f.StringVar(&log.format, "log-format", "text", "format of the logs: text|json")
	return cmd
}

// searchProgress shows how far a search has come.
type searchProgress struct {
	*progress
	s     *scenario.Scenario
	began time.Time
	now   func() time.Time
}

func (a *app) newSearchProgress(s *scenario.Scenario) *searchProgress {
	p := &searchProgress{progress: a.newProgress(), s: s, began: a.now(), now: a.now}
	p.show("%s: the first run, without faults", s.Name)
	return p
}

// ran is told of each run.
func (p *searchProgress) ran(so *sim.Result, last *sim.Outcome) {
	if last.Run.Failure != nil {
		p.show("%s: run %d breaks a promise: it is repeated and made small", p.s.Name, so.Runs)
		return
	}
	p.show("%s: %d of %d runs, %d of %d single faults, %s left: %s", p.s.Name, so.Runs, p.s.Runs, so.Systematic, so.SystematicTotal,
		p.left(so.Runs), strings.Join(last.Run.Faults, "; "))
}

// left is how long the search will still take at most.
func (p *searchProgress) left(runs int) time.Duration {
	gone := p.now().Sub(p.began)
	left := time.Duration(float64(gone) / float64(max(1, runs)) * float64(p.s.Runs-runs))
	return max(0, min(left, p.s.Budget-gone)).Round(time.Second)
}
