package simtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestChildProcess creates the ConfigMaps named in SIMTEST_CHILD, and in its second run another one if that is once.
// TestKeptFailures and TestSeenOnce run it in a child process, where it fails if a ConfigMap is named bad.
func TestChildProcess(t *testing.T) {
	name := os.Getenv("SIMTEST_CHILD")
	if name == "" {
		name = "whole"
	}
	runs := 0
	Run(t, Seeds(30), func(w *World) {
		if runs++; name == "once" && runs == 2 {
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad"}})
		}
		for _, part := range strings.Split(name, " ") {
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: part}})
		}
		w.Always(invariant.Never(invariant.Exists("configmaps", "default", "bad")))
		w.Eventually(time.Minute, invariant.Exists("configmaps", "default", strings.Split(name, " ")[0]))
	})
}

// child runs TestChildProcess in a child process, with dir as its directory.
func child(t *testing.T, dir, names string, args ...string) (output string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^TestChildProcess$", "-test.v"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "SIMTEST_CHILD="+names)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func kept(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "testdata", "simtest", "TestChildProcess", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestKeptFailures checks that a failure is stored, that the printed command replays it, that it is
// the first run of the next search, and that a replay reports a changed test.
func TestKeptFailures(t *testing.T) {
	dir := t.TempDir()
	out, ok := child(t, dir, "good bad")
	files := kept(t, dir)
	if ok || len(files) != 1 {
		t.Fatalf("ok %v, kept %v:\n%s", ok, files, out)
	}
	file, _ := filepath.Rel(dir, files[0])
	for _, want := range []string{"never configmaps default/bad exists", "3/3 identical", "-simtest.replay=" + file, "-run '^TestChildProcess$'", "create configmaps bad", "draw: rehearse report " + file} {
		if !strings.Contains(out, want) {
			t.Errorf("the failure does not contain %q:\n%s", want, out)
		}
	}

	coverage, err := report.ReadCoverage(files[0])
	if err != nil || len(coverage) != 0 {
		t.Errorf("the coverage of a search without controllers: %v, %v", coverage, err)
	}
	if _, err := os.Stat(report.CoverageFile(files[0])); err != nil {
		t.Error(err)
	}

	again, ok := child(t, dir, "good bad", "-simtest.replay="+file)
	if ok || !strings.Contains(again, "steps again") {
		t.Errorf("replay, ok %v:\n%s", ok, again)
	}
	changed, ok := child(t, dir, "good better bad", "-simtest.replay="+file)
	if ok || !strings.Contains(changed, "diverged at step 1") || !strings.Contains(changed, "create configmaps default/better") {
		t.Errorf("replay of a changed test, ok %v:\n%s", ok, changed)
	}
	fixed, ok := child(t, dir, "good")
	if !ok || len(kept(t, dir)) != 1 {
		t.Errorf("the fixed test, ok %v, kept %v:\n%s", ok, kept(t, dir), fixed)
	}

	data, err := os.ReadFile(files[0])
	must(t, err)
	bad := filepath.Join(dir, "bad.jsonl")
	for what, c := range map[string]struct{ content, says string }{
		"garbage":          {"nonsense\n", "line 1"},
		"another version":  {strings.Replace(string(data), `"format":1`, `"format":99`, 1), "99"},
		"cut":              {string(data[:len(data)/2]), "line"},
		"an unknown fault": {strings.Replace(string(data), `"seed":1`, `"seed":1,"faults":["laag"]`, 1), "laag"},
		"a forged step":    {strings.Replace(string(data), `"name":"good"`, `"name":"evil"`, 1), "hash"},
	} {
		must(t, os.WriteFile(bad, []byte(c.content), 0o600))
		run, err := readRun(bad)
		if err == nil {
			_, err = planOf(run)
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: want %q, got %v", what, c.says, err)
		}
	}
	other := strings.Replace(string(data), `"test":"TestChildProcess"`, `"test":"TestOther"`, 1)
	must(t, os.WriteFile(bad, []byte(other), 0o600))
	for file, says := range map[string]string{"bad.jsonl": "is a run of TestOther", "nothing.jsonl": "nothing.jsonl does not exist"} {
		if out, ok := child(t, dir, "good", "-simtest.replay="+file); ok || !strings.Contains(out, says) {
			t.Errorf("ok %v, want %q:\n%s", ok, says, out)
		}
	}
}

// TestSeenOnce checks that a failure that does not reproduce is logged and stored, and fails the test only with
// -simtest.strict.
func TestSeenOnce(t *testing.T) {
	for _, strict := range []bool{false, true} {
		dir := t.TempDir()
		out, ok := child(t, dir, "once", fmt.Sprintf("-simtest.strict=%v", strict))
		if ok == strict || len(kept(t, dir)) == 0 {
			t.Errorf("strict %v: ok %v, kept %v:\n%s", strict, ok, kept(t, dir), out)
		}
		for _, want := range []string{"seen once, in run 2: never configmaps default/bad exists", "0/20 the same failure", "record: testdata/simtest/TestChildProcess/"} {
			if !strings.Contains(out, want) {
				t.Errorf("strict %v: the output does not contain %q:\n%s", strict, want, out)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSometimes checks that an invariant of Sometimes that never holds is reported.
func TestSometimes(t *testing.T) {
	result := Explore(t, Seeds(5), func(w *World) {
		w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		w.Sometimes(invariant.Exists("configmaps", "default", "a"), invariant.Exists("configmaps", "default", "b"))
	})
	if unseen := result.Unseen(); len(unseen) != 1 || !strings.Contains(unseen[0], "default/b") {
		t.Errorf("unseen: %q", unseen)
	}
}
