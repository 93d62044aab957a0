package seeded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rehearse-k8s/rehearse/internal/cli"
	"github.com/rehearse-k8s/rehearse/test/seeded"
)

var (
	processRuns     = flag.Int("seeded.process-runs", 3, "runs of the search of each correct sibling as a real process; the first three have no faults")
	processBugs     = flag.String("seeded.process-bugs", "", "the bugs that TestProcessSearch searches for, separated by commas; all: all of them; empty: one that it must find")
	processBudget   = flag.Duration("seeded.process-budget", 10*time.Minute, "the maximum duration of each search of TestProcessSearch, without repeats of its failure")
	processSiblings = flag.String("seeded.process-siblings", "", "the bugs whose correct siblings TestScenariosOfSiblings runs, separated by commas; all: all of them; empty: one")
)

const (
	// asRehearse is the environment variable that makes this binary run as rehearse.
	asRehearse = "REHEARSE_TEST_SEEDED"
	// asBug and asSibling are the first arguments that make this binary run a controller; its name follows.
	asBug     = "run-bug"
	asSibling = "run-sibling"
)

func TestMain(m *testing.M) {
	runsController := len(os.Args) == 3 && (os.Args[1] == asBug || os.Args[1] == asSibling)
	switch {
	case runsController:
		if err := runProcess(os.Args[2], os.Args[1] == asSibling); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv(asRehearse) != "":
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.StdStreams()))
	default:
		os.Exit(m.Run())
	}
}

// runProcess runs a controller until the process is interrupted.
func runProcess(name string, fixed bool) error {
	if seeded.Bugs[name] == nil {
		return fmt.Errorf("bug %q: unknown", name)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return err
	}
	config.QPS = -1 // the API server limits the rate
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard())
	options := ctrl.Options{Metrics: server.Options{BindAddress: "0"}}
	if bugs[name].leaders {
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = true, "seeded", "default"
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	if err := seeded.Setup(name, fixed)(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// verdict is the part of the output of rehearse test that the tests read.
type verdict struct {
	Verdict, Reason string
	Runs            int
	Seconds         float64
	Failure         *struct {
		Invariant, Message string
		Faults             []string
		Run                int
	}
}

// rehearse runs rehearse test in a process of its own.
func rehearse(t *testing.T, args ...string) verdict {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"test", "-o=json", "--failures=" + t.TempDir()}, args...)...)
	cmd.Env = append(os.Environ(), asRehearse+"=yes")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var result struct{ Scenarios []verdict }
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || len(result.Scenarios) != 1 {
		t.Fatalf("%v: %s%s", err, &out, &stderr)
	}
	v := result.Scenarios[0]
	if (v.Verdict == "passed") != (cmd.ProcessState.ExitCode() == 0) {
		t.Errorf("exit code %d: %+v\n%s%s", cmd.ProcessState.ExitCode(), v, &out, &stderr)
	}
	return v
}

// writeScenario returns the file of a scenario.
func writeScenario(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestProcessSearch searches for seeded bugs with real processes, and prints a line for each search, like TestSearch. Without
// -seeded.process-bugs it searches for one, among few faults.
func TestProcessSearch(t *testing.T) {
	const defaultBug = "recreated-secret"
	onlyFaults := ""
	if *processBugs == "" {
		onlyFaults = "  only: [relist resource=secrets]\n"
	}
	for _, name := range selectBugs(t, "process-bugs", *processBugs, defaultBug) {
		for seed := *searchFrom; seed < *searchFrom+*searchSeeds; seed++ {
			v := rehearse(t, writeScenario(t, name, scenarioOf(name, asBug)+onlyFaults), "--runs=1000000", fmt.Sprintf("--budget=%s", *processBudget), fmt.Sprintf("--seed=%d", seed))
			result := found{Bug: name, Seed: seed, Runs: v.Runs, Seconds: v.Seconds}
			if f := v.Failure; f != nil {
				result.Runs, result.Faults = f.Run, len(f.Faults)
				if result.Found = strings.HasPrefix(f.Invariant, bugs[name].violates) && len(f.Faults) > 0; !result.Found {
					result.Other = f.Invariant
				}
				t.Logf("%s: %s with %q", f.Invariant, f.Message, f.Faults)
			} else if v.Verdict != "passed" {
				t.Fatalf("%s: %s: %s", name, v.Verdict, v.Reason)
			}
			result.print(t)
			if *processBugs == "" && !result.Found {
				t.Errorf("%s: not found", name)
			}
		}
	}
}

// TestScenariosOfSiblings runs the scenarios of bugs with the correct siblings: their invariants hold. With more runs than three
// (-seeded.process-runs) it also injects faults.
func TestScenariosOfSiblings(t *testing.T) {
	for _, name := range selectBugs(t, "process-siblings", *processSiblings, "wide") {
		t.Run(name, func(t *testing.T) {
			if v := rehearse(t, writeScenario(t, name, scenarioOf(name, asSibling)), fmt.Sprintf("--runs=%d", *processRuns), "--budget=10h"); v.Verdict != "passed" || v.Runs != *processRuns {
				t.Errorf("%+v", v)
			}
		})
	}
}
