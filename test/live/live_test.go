package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/cli"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// asRehearse is the environment variable that makes this binary run as rehearse.
const asRehearse = "REHEARSE_TEST_LIVE"

func TestMain(m *testing.M) {
	if os.Getenv(asRehearse) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.StdStreams()))
	}
	os.Exit(m.Run())
}

// verdict is the output of `rehearse test -o json` for a scenario.
type verdict struct {
	Verdict string
	Reason  string
	Runs    int
	Seconds float64
	Failure *struct {
		Invariant, Message, Cause, Grade, File string
		Faults                                 []string
		Run, Reproduced, Repeats               int
	}
}

// rehearse tests a command in a scenario of the examples. Programs of examples/run are bin/examples.
func rehearse(t *testing.T, scenario string, options, command []string) verdict {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	must(t, os.Symlink(examples(t, root), filepath.Join(dir, "bin", "examples")))
	args := append([]string{"test", filepath.Join(root, "examples", scenario), "-o", "json"}, options...)
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(append(args, "--"), command...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asRehearse+"=yes")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var result struct{ Scenarios []verdict }
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || len(result.Scenarios) != 1 {
		t.Fatalf("%v: %s%s", err, &out, &stderr)
	}
	v := result.Scenarios[0]
	if code := cmd.ProcessState.ExitCode(); (v.Verdict == "failed") != (code == 1) || (v.Verdict == "passed") != (code == 0) {
		t.Errorf("%s, and exit code %d", v.Verdict, code)
	}
	if v.Failure != nil {
		v.Failure.File = filepath.Join(dir, v.Failure.File)
	}
	return v
}

// examples returns the file of the compiled program examples/run. Each test builds it; with the build cache
// that takes no time after the first.
func examples(t *testing.T, root string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "examples")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./examples/run")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// found checks for a failure of one fault that was reproduced each time, in a file that can be read.
func found(t *testing.T, v verdict, invariant string) {
	t.Helper()
	f := v.Failure
	if f == nil {
		t.Fatalf("no failure in %d runs: %+v", v.Runs, v)
	}
	t.Logf("found in run %d, %.0fs in all, %s: %s: %q", f.Run, v.Seconds, f.Grade, f.Invariant, f.Faults)
	if !strings.Contains(f.Invariant, invariant) || f.Cause == "" || f.Repeats < 3 || f.Reproduced != f.Repeats || len(f.Faults) != 1 {
		t.Errorf("%+v", f)
	}
	kept, err := os.Open(f.File)
	must(t, err)
	defer kept.Close()
	run, err := history.Read(kept)
	must(t, err)
	if run.Failure == nil || run.Failure.Oracle != f.Invariant || len(run.Steps) == 0 || !run.Live {
		t.Errorf("the file has %d steps and the failure %+v", len(run.Steps), run.Failure)
	}
	// The recorded run can be replayed as it is, and so can the nearest passing run.
	held, err := os.Open(report.NearestFile(f.File))
	must(t, err)
	defer held.Close()
	nearest, err := history.Read(held)
	must(t, err)
	if len(run.Command) == 0 || !slices.Equal(run.Command, nearest.Command) {
		t.Errorf("the run is of %q, the nearest passing run of %q", run.Command, nearest.Command)
	}
}

// passed checks that no failure was found.
func passed(t *testing.T, v verdict, runs int) {
	t.Helper()
	t.Logf("%s in %d runs, %.0fs", v.Verdict, v.Runs, v.Seconds)
	if v.Verdict != "passed" || v.Runs != runs {
		t.Errorf("%+v %+v\n%s", v, v.Failure, lanes(v))
	}
}

// lanes returns the events around a failure, because the file of the run is deleted with the test.
func lanes(v verdict) string {
	if v.Failure == nil {
		return ""
	}
	kept, err := os.Open(v.Failure.File)
	if err != nil {
		return err.Error()
	}
	defer kept.Close()
	run, err := history.Read(kept)
	if err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	if err := report.Lanes(&b, run, report.LaneOptions{Around: 40}); err != nil {
		return err.Error()
	}
	return b.String()
}

// TestNaive checks that the default search finds the defects of the naive examples from outside.
func TestNaive(t *testing.T) {
	t.Parallel()
	for name, violated := range map[string]string{
		"expectations": "exactly 1 active pod of ConfigMap default/web",
		"stalestatus":  "once true, stays true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found(t, rehearse(t, name+"/scenario.yaml", nil, []string{"bin/examples", name}), violated)
		})
	}
}

// TestCareful checks that a correct controller passes, in the scenario of a naive one.
func TestCareful(t *testing.T) {
	t.Parallel()
	passed(t, rehearse(t, "expectations/scenario.yaml", []string{"--runs=25"}, []string{"bin/examples", "careful"}), 25)
}

// TestOperatorScenario checks that the scenario for operators runs as it is, and that its events occur.
func TestOperatorScenario(t *testing.T) {
	t.Parallel()
	passed(t, rehearse(t, "../scenario/builtin/operator.yaml", []string{"--runs=60"}, []string{"bin/examples", "webs"}), 60)
}
