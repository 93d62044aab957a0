package simtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestSearchOfProcesses is a search of SIMTEST_PROCESSES: careful or naive are the controller; panic, start, stuck and report say
// what a worker process does wrong. Other tests execute it in a process of its own, with worker processes.
func TestSearchOfProcesses(t *testing.T) {
	mode := os.Getenv("SIMTEST_PROCESSES")
	awaitWorkers = mode != ""
	defer func() { awaitWorkers = false }()
	fmt.Println("the test function is executed")
	Run(t, Seeds(4), func(w *World) { w.Create(settingsNamed("first")) })
	t.Run("a (name) with | [signs]", func(t *testing.T) {
		if worker != nil && mode == "start" {
			t.Fatal("cannot start here")
		}
		if worker != nil && mode == "report" {
			t.Cleanup(func() { t.Error("the cleanup of a worker process failed") })
		}
		Run(t, Seeds(40), func(w *World) {
			if worker != nil {
				misbehave(mode)
			}
			w.Controller("settings", settingsController(mode == "naive"))
			w.Always(invariant.Func("there is at most one ConfigMap of the settings", func(v invariant.View) error {
				if n := len(v.List("configmaps")); n > 1 {
					return fmt.Errorf("found %d", n)
				}
				return nil
			}))
			w.Settle()
		})
		if worker != nil {
			t.Error("a worker process executed the test function beyond its search")
		}
	})
}

// file3 is open until its process exits: a file that nothing refers to would be closed by the garbage collector.
var file3 *os.File

// misbehave does in a worker process what no other process may survive.
func misbehave(mode string) {
	switch mode {
	case "panic":
		go func() { panic("no settings") }()
	case "stuck": // tell whoever reads file 3, and then never return
		file3 = os.NewFile(3, "ready")
		_, _ = file3.Write([]byte("r"))
		var mu sync.Mutex
		mu.Lock()
		mu.Lock()
	}
}

func settingsNamed(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

// settingsController creates a ConfigMap. A naive one lets the server generate the name, so a create whose answer was lost leads to
// a second one.
func settingsController(naive bool) Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		settings := settingsNamed("settings")
		if naive {
			settings.Name, settings.GenerateName = "", "settings-"
		}
		for ctx.Err() == nil {
			if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, settings, metav1.CreateOptions{}); err == nil {
				break
			}
			time.Sleep(time.Second) // virtual
		}
		<-ctx.Done()
		return nil
	}
}

// commandOfProcesses returns a command that executes TestSearchOfProcesses with worker processes.
func commandOfProcesses(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^TestSearchOfProcesses$", "-test.v", "-simtest.processes=2"}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "SIMTEST_PROCESSES="+mode)
	return cmd
}

// searchWithProcesses executes TestSearchOfProcesses with worker processes.
func searchWithProcesses(t *testing.T, mode string, args ...string) (output string, ok bool) {
	t.Helper()
	out, err := commandOfProcesses(t, mode, args...).CombinedOutput()
	return string(out), err == nil
}

// durations and playedRuns match what differs between two searches of the same plans; playedAny, that a worker process has played.
var (
	durations  = regexp.MustCompile(`\b[0-9.]+m?s\b`)
	playedRuns = regexp.MustCompile(`worker process \d+ played \d+ runs?`)
	playedAny  = regexp.MustCompile(`worker process 1 played [1-9]\d* runs?`)
)

// TestProcesses: a search with two processes plays as many runs as allowed, some of them in the worker process, which prints
// nothing; and the same search gives the same result.
func TestProcesses(t *testing.T) {
	var verdicts []string
	for range 2 {
		out, ok := searchWithProcesses(t, "careful")
		if !ok || !strings.Contains(out, ", 40 runs") || !playedAny.MatchString(out) {
			t.Fatalf("ok %v:\n%s", ok, out)
		}
		if n := strings.Count(out, "the test function is executed"); n != 1 || strings.Contains(out, "SKIP") {
			t.Errorf("a worker process prints; the line of the test function appears %d times:\n%s", n, out)
		}
		verdicts = append(verdicts, playedRuns.ReplaceAllString(durations.ReplaceAllString(out, "TIME"), "PLAYED"))
	}
	if verdicts[0] != verdicts[1] {
		t.Errorf("two searches of the same plans differ:\n%s\n%s", verdicts[0], verdicts[1])
	}
}

// TestProcessesFind: a failure that a search with two processes finds is repeated, shrunk and reported once, and its run is
// stored once.
func TestProcessesFind(t *testing.T) {
	cmd := commandOfProcesses(t, "naive", "-simtest.processes=3")
	data, err := cmd.CombinedOutput()
	out, ok := string(data), err == nil
	if ok || strings.Count(out, "at most one ConfigMap of the settings: found 2") != 1 || strings.Count(out, "replay: go test") != 1 {
		t.Fatalf("ok %v:\n%s", ok, out)
	}
	for _, want := range []string{"3/3 identical", "worker process 2 played"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not contain %q:\n%s", want, out)
		}
	}
	files, err := filepath.Glob(filepath.Join(cmd.Dir, "testdata", "simtest", "*", "*.coverage.json"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("stored: %q", files)
	}
	coverage, err := report.ReadCoverage(strings.TrimSuffix(files[0], ".coverage.json") + ".jsonl")
	if err != nil || len(coverage) != 1 || coverage[0].Actor != "settings" || len(coverage[0].Tried) == 0 || len(coverage[0].Reasons) == 0 {
		t.Errorf("the stored coverage is %+v, %v", coverage, err)
	}
}

// TestProcessesFail: a worker process that panics, that does not reach the search, or whose test fails, fails the test of its
// parent, with what it printed.
func TestProcessesFail(t *testing.T) {
	for mode, want := range map[string][]string{
		"panic":  {"worker process 1: the process has ended during a run with seed 1", "panic: no settings", "misbehave"},
		"start":  {"worker process 1: the process has ended before it reached the search", "cannot start here"},
		"report": {"worker process 1: exit status 1", "the cleanup of a worker process failed"},
	} {
		out, ok := searchWithProcesses(t, mode)
		if ok {
			t.Errorf("%s: the test passed:\n%s", mode, out)
		}
		for _, text := range want {
			if strings.Count(out, text) < 1 {
				t.Errorf("%s: the output does not contain %q:\n%s", mode, text, out)
			}
		}
	}
}

// TestPatternOfTest: the pattern of a worker process selects one test, whatever signs its name has.
func TestPatternOfTest(t *testing.T) {
	if got, want := patternOf("TestA/b_(c)|d"), `^TestA$/^b_\(c\)\|d$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestInbox: what the parent sends is accepted while nothing reads it, so that the end of the parent is noticed; and it is read
// completely.
func TestInbox(t *testing.T) {
	b := newInbox()
	if n, err := io.Copy(b, strings.NewReader("one, two")); n != 8 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	b.close()
	if data, err := io.ReadAll(b); string(data) != "one, two" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// TestExcerpt: of long output, the beginning and the end are kept.
func TestExcerpt(t *testing.T) {
	var e excerpt
	_, _ = e.Write([]byte("begin" + strings.Repeat("x", maxExcerpt)))
	if got := e.String(); len(got) != 5+maxExcerpt {
		t.Errorf("%d bytes of short output", len(got))
	}
	_, _ = e.Write([]byte(strings.Repeat("y", maxExcerpt) + "end"))
	got := e.String()
	if !strings.HasPrefix(got, "begin") || !strings.HasSuffix(got, "yend") || !strings.Contains(got, "8 bytes are omitted") {
		t.Errorf("%d bytes: %s ... %s", len(got), got[:20], got[len(got)-20:])
	}
}
