package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/rehearsal"
	"github.com/rehearse-k8s/rehearse/internal/version"
	"github.com/rehearse-k8s/rehearse/scenario"
	"github.com/rehearse-k8s/rehearse/stage"
)

// rehearsalOptions are the flags that test and replay have in common.
type rehearsalOptions struct {
	parallel int
	logs     bool
	log      console.LogOptions
	target   targetOptions
}

func (o *rehearsalOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.parallel, "parallel", defaultParallel(), "number of concurrent runs; use 1 for a controller that listens on a fixed port")
	f.BoolVar(&o.logs, "logs", false, "show the output of the clients on stderr")
	o.log.AddFlags(cmd, "show the logs of the Kubernetes code on stderr, up to this level")
	o.target.addFlags(f)
}

func (o *rehearsalOptions) validate(cmd *cobra.Command) error {
	if o.parallel < 1 {
		return console.Usagef("--parallel %d: must be at least 1", o.parallel)
	}
	if o.target.given() {
		if cmd.Flags().Changed("parallel") && o.parallel > 1 {
			return console.Usagef("--parallel %d: an existing cluster allows one run at a time", o.parallel)
		}
		o.parallel = 1
	}
	if err := o.target.validate(); err != nil {
		return err
	}
	return o.log.Validate()
}

// openedHarness is a harness with the files and clusters that it needs.
type openedHarness struct {
	harness *rehearsal.Harness
	dir     string
	lock    *flock.Flock // of dir
}

// checkScenario rejects unknown names of controllers.
func checkScenario(s *scenario.Scenario) error {
	if err := cluster.CheckControllers(s.Controllers); err != nil {
		return s.Problem("spec.cluster.controllers", err.Error())
	}
	for i := range s.Clients {
		if name := s.Clients[i].Builtin; name != "" {
			err := cluster.CheckControllers([]string{name})
			if err == nil && (name == "*" || strings.HasPrefix(name, "-")) {
				err = errors.New("must name one controller")
			}
			if err != nil {
				return s.Problem(fmt.Sprintf("spec.clients[%d].builtin", i), err.Error())
			}
		}
	}
	return nil
}

// openRehearsal starts or connects to the API that a scenario runs against.
func (a *app) openRehearsal(ctx context.Context, o *rehearsalOptions, s *scenario.Scenario) (*openedHarness, error) {
	var logs io.Writer = io.Discard
	o.log.SetUp(logs, a.Err)
	dir, lock, err := rehearsalDir()
	if err != nil {
		return nil, err
	}
	r := &openedHarness{dir: dir, lock: lock}
	stages, err := a.stagesOf(s)
	if err != nil {
		r.removeDir()
		return nil, err
	}
	target, err := a.targetOf(&o.target, s)
	if err != nil {
		r.removeDir()
		return nil, err
	}
	r.harness, err = rehearsal.Open(ctx, rehearsal.Options{
		Scenario: s, Target: target, QPS: o.target.qps, Dir: dir, Version: version.Get().Version, Conversions: cluster.Conversions(),
		Kinds: func(ctx context.Context, c *rest.Config) error { return cluster.EnsureKinds(ctx, c, kindsOf(s)) },
		NewControllers: func(ctx context.Context, config func(string) *rest.Config, pki string) (func(context.Context), error) {
			return cluster.NewControllers(ctx, config, s.Controllers, pki, stages)
		},
		Builtin: func(name string, gates map[string]bool) []string { return a.builtinCommand(name, gates, s.Stages) },
		Logs:    a.clientLogs(o),
	})
	if err != nil {
		r.removeDir()
		return nil, err
	}
	return r, nil
}

// dirLock is the file in the directory of a test that its process locks.
const dirLock = "lock"

// rehearsalDir creates a directory that has the process ID in its name, and removes those of processes that were killed. The lock is held as long as
// the directory is used.
func rehearsalDir() (dir string, lock *flock.Flock, err error) {
	const prefix = "rehearse-test-"
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && !alive(n) && !isLocked(dir) {
			_ = os.RemoveAll(dir)
		}
	}
	if dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", prefix, os.Getpid())); err != nil {
		return "", nil, err
	}
	lock = flock.New(filepath.Join(dir, dirLock))
	if err := lock.Lock(); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, lock, nil
}

// isLocked reports whether a process uses the directory of a test. Containers that share a directory for temporary files do not see each other's
// processes. A directory that is new has no lock yet.
func isLocked(dir string) bool {
	lock := flock.New(filepath.Join(dir, dirLock), flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryLock()
	if free {
		_ = lock.Close()
		return false
	}
	info, e := os.Stat(dir)
	return !errors.Is(err, fs.ErrNotExist) || e != nil || time.Since(info.ModTime()) < time.Minute
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// close stops the API, or resets the cluster. The error lists what could not be reset.
func (r *openedHarness) close() error {
	err := r.harness.Close()
	r.removeDir()
	return err
}

func (r *openedHarness) removeDir() {
	_ = os.RemoveAll(r.dir)
	_ = r.lock.Close()
}

func (a *app) stagesOf(s *scenario.Scenario) (*stage.Set, error) {
	if len(s.Stages) == 0 {
		return nil, nil
	}
	return cluster.LoadStages(s.Stages)
}

// kindsOf are the controllers whose kinds a scenario needs: a client may be one of them, or replace one.
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

// clientLogs prints the output of clients, nil if it is not wanted.
func (a *app) clientLogs(o *rehearsalOptions) func(int64, string, string) {
	if !o.logs {
		return nil
	}
	var mu sync.Mutex
	return func(run int64, client, line string) {
		mu.Lock()
		defer mu.Unlock()
		a.Say("[run %d] %s: %s", run, client, line)
	}
}

// builtinCommand is the command that starts one of this program's controllers as a client. The stage engine plays the
// stages of the scenario.
func (a *app) builtinCommand(name string, gates map[string]bool, stages []string) []string {
	self, err := a.Executable()
	if err != nil {
		self = os.Args[0]
	}
	command := []string{self, "controller", name, "--kubeconfig={{kubeconfig}}"}
	for gate, on := range gates {
		command = append(command, fmt.Sprintf("--feature-gates=%s=%t", gate, on))
	}
	slices.Sort(command[4:])
	if name == cluster.StageController {
		for _, file := range stages {
			command = append(command, "--stages="+file)
		}
	}
	return command
}
