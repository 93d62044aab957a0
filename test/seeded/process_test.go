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
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rehearse-k8s/rehearse/internal/cli"
	"github.com/rehearse-k8s/rehearse/test/seeded"
)

var processRuns = flag.Int("seeded.process-runs", 3, "runs of the search of wide's correct sibling as a real process; the first three have no faults")

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
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := seeded.Setup(name, fixed)(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// TestWideAsProcess runs the scenario of wide with the correct sibling as a real process. With -seeded.process-runs=20 the
// search expires the watch of pods as well. For the bug itself, start the test binary as rehearse with REHEARSE_TEST_SEEDED=yes
// and the arguments: test testdata/wide.yaml -- BINARY run-bug wide.
func TestWideAsProcess(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "test", filepath.Join("testdata", "wide.yaml"), "-o", "json", "--budget=10h",
		fmt.Sprintf("--runs=%d", *processRuns), "--failures="+t.TempDir(), "--", os.Args[0], asSibling, "wide")
	cmd.Env = append(os.Environ(), asRehearse+"=yes")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var result struct {
		Scenarios []struct {
			Verdict string
			Runs    int
		}
	}
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || len(result.Scenarios) != 1 {
		t.Fatalf("%v: %s%s", err, &out, &stderr)
	}
	if s := result.Scenarios[0]; s.Verdict != "passed" || s.Runs != *processRuns || cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit code %d: %+v\n%s%s", cmd.ProcessState.ExitCode(), s, &out, &stderr)
	}
}
