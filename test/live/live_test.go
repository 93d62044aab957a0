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

// asRehearse has this binary be rehearse.
const asRehearse = "REHEARSE_TEST_LIVE"

func TestMain(m *testing.M) {
	if os.Getenv(asRehearse) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.StdStreams()))
	}
	os.Exit(m.Run())
}

// verdict is what `rehearse test -o json` says of a scenario.
type verdict struct {
	Verdict string
	Reason  string
	Runs    int
	Seconds float64
	Failure *struct {
		Promise, Message, Cause, Grade, File string
		Faults                               []string
		Run                                  int
	}
}

// rehearse rehearses a command in a scenario of the examples. Programs of examples/run are
// bin/examples.
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
	if code := cmd.ProcessState.ExitCode(); (v.Verdict == "failed") != (code == 1) || (v.Verdict == "held") != (code == 0) {
		t.Errorf("%s, and exit code %d", v.Verdict, code)
	}
	if v.Failure != nil {
		v.Failure.File = filepath.Join(dir, v.Failure.File)
	}
	return v
}

// examples is the file that has examples/run as a program. It is built anew by each test that
// asks, which takes no time once it has been.
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

// found wants a failure of one fault that came again each time, in a file that can be read.
func found(t *testing.T, v verdict, promise string) {
	t.Helper()
	f := v.Failure
	if f == nil {
		t.Fatalf("nothing was found in %d runs: %+v", v.Runs, v)
	}
	t.Logf("found in run %d, %.0fs in all, %s: %s: %q", f.Run, v.Seconds, f.Grade, f.Promise, f.Faults)
	if !strings.Contains(f.Promise, promise) || f.Cause == "" || f.Grade != "reproduced 3 of 3" || len(f.Faults) != 1 {
		t.Errorf("%+v", f)
	}
	kept, err := os.Open(f.File)
	must(t, err)
	defer kept.Close()
	run, err := history.Read(kept)
	must(t, err)
	if run.Failure == nil || run.Failure.Oracle != f.Promise || len(run.Steps) == 0 || !run.Live {
		t.Errorf("the file has %d steps and the failure %+v", len(run.Steps), run.Failure)
	}
	// What is kept can be played again as it stands, and so can the nearest run that held.
	held, err := os.Open(report.NearestFile(f.File))
	must(t, err)
	defer held.Close()
	nearest, err := history.Read(held)
	must(t, err)
	if len(run.Command) == 0 || !slices.Equal(run.Command, nearest.Command) {
		t.Errorf("the run is of %q, the nearest that held of %q", run.Command, nearest.Command)
	}
}

// held wants nothing to be found.
func held(t *testing.T, v verdict, runs int) {
	t.Helper()
	t.Logf("%s in %d runs, %.0fs", v.Verdict, v.Runs, v.Seconds)
	if v.Verdict != "held" || v.Runs != runs {
		t.Errorf("%+v %+v\n%s", v, v.Failure, lanes(v))
	}
}

// lanes is what happened around a failure: the file of the run goes with the test.
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

// TestNaive: what is wrong with the naive examples is found from outside, by the default search.
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

// TestCareful: nothing is said against a right one, in the story of a naive one.
func TestCareful(t *testing.T) {
	t.Parallel()
	held(t, rehearse(t, "expectations/scenario.yaml", []string{"--runs=25"}, []string{"bin/examples", "careful"}), 25)
}

// TestOperatorScenario: the scenario for operators can be played as it stands, and what it
// looks for can be seen.
func TestOperatorScenario(t *testing.T) {
	t.Parallel()
	held(t, rehearse(t, "../scenario/builtin/operator.yaml", []string{"--runs=60"}, []string{"bin/examples", "webs"}), 60)
}
