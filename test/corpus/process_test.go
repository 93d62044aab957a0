package corpus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rehearse-k8s/rehearse/examples/careful"
	"github.com/rehearse-k8s/rehearse/internal/cli"
	"github.com/rehearse-k8s/rehearse/test/corpus"
)

var processRuns = flag.Int("corpus.process-runs", 10, "runs of the search of each style as a real process; with more than 10, of all styles")

const (
	// asRehearse is the environment variable that makes this binary run as rehearse.
	asRehearse = "REHEARSE_TEST_CORPUS"
	// asController is the first argument that makes this binary run as the controller with the style that follows.
	asController = "run-style"

	leaderElection = "leader election"
	counter        = "a counter like Job's"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asRehearse) != "" && os.Args[1] != asController:
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.StdStreams()))
	case len(os.Args) == 3 && os.Args[1] == asController:
		if err := runStyle(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// runStyle runs one controller until the process is interrupted.
func runStyle(style string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return err
	}
	config.QPS = -1 // the API server limits the rate
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if style == counter {
		return careful.Run(ctx, config)
	}
	ctrl.SetLogger(logr.Discard())
	options := ctrl.Options{Metrics: server.Options{BindAddress: "0"}}
	setup := corpus.Styles[style]
	if style == leaderElection {
		setup = corpus.Styles["nil on conflict"]
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = true, "corpus", "default"
		// A successor waits for the lease of a process that was killed.
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = ptr.To(4*time.Second), ptr.To(3*time.Second), ptr.To(500*time.Millisecond)
	}
	if setup == nil {
		return fmt.Errorf("style %q: unknown", style)
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	if err := setup(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// TestNoFalseAlarmOfProcesses searches styles as real processes behind the proxy, at level legal: by default those
// that depend on time, because virtual time says least about them, and all with more runs than the default.
func TestNoFalseAlarmOfProcesses(t *testing.T) {
	styles := []string{"heartbeat", "periodic resync", "two controllers, one slow", leaderElection}
	if *processRuns > 10 {
		styles = append(slices.Sorted(maps.Keys(corpus.Styles)), leaderElection, counter)
	}
	for _, style := range styles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			scenario := filepath.Join("testdata", "parts.yaml")
			switch style {
			case "cleanup by finalizer":
				scenario = filepath.Join("testdata", "cleanup.yaml")
			case counter:
				scenario = filepath.Join("testdata", "counter.yaml")
			}
			failures := filepath.Join(os.TempDir(), "rehearse-corpus-failures", strings.ReplaceAll(style, " ", "-"))
			cmd := exec.CommandContext(t.Context(), os.Args[0], "test", scenario, "-o", "json", "--strict", "--budget=10h",
				fmt.Sprintf("--runs=%d", *processRuns), "--failures="+failures, "--", os.Args[0], asController, style)
			cmd.Env = append(os.Environ(), asRehearse+"=yes")
			var out, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &stderr
			start := time.Now()
			var exit *exec.ExitError
			if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			var result struct {
				Scenarios []struct {
					Verdict, Reason string
					Runs            int
					Failure         *struct{ Invariant, Message, Cause, Grade, File string }
				}
			}
			if err := json.Unmarshal(out.Bytes(), &result); err != nil || len(result.Scenarios) != 1 {
				t.Fatalf("%v: %s%s", err, &out, &stderr)
			}
			v := result.Scenarios[0]
			t.Logf("%s in %d runs, %.0f s", v.Verdict, v.Runs, time.Since(start).Seconds())
			if v.Verdict != "passed" || v.Runs != *processRuns || cmd.ProcessState.ExitCode() != 0 {
				t.Errorf("exit code %d: %+v %+v\n%s", cmd.ProcessState.ExitCode(), v, v.Failure, &stderr)
			}
		})
	}
}
