package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

func recorded(t testing.TB, name string) *history.Run {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := history.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// secondPod returns a failure as simtest stores it, with its nearest passing run.
func secondPod(t testing.TB) *report.Run {
	t.Helper()
	return report.Of("second-pod.jsonl", recorded(t, "second-pod.jsonl"), recorded(t, "second-pod.nearest.jsonl"))
}

func text(t *testing.T, r *report.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteText(&b, r, report.LaneOptions{Around: 12}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) { golden(t, "second-pod.txt", text(t, secondPod(t))) }

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := report.WriteJSON(&b, report.New(secondPod(t))); err != nil {
		t.Fatal(err)
	}
	// The fields that programs rely on, decoded without our types.
	var got struct {
		APIVersion, Kind string
		Runs             []struct {
			Verdict struct {
				Result string
				Step   int
			}
			Departs int
			Nearest struct{ Verdict struct{ Result string } }
			Steps   []struct {
				N        int
				Actor    string
				WokenBy  int
				Behind   map[string]int
				Delivery string
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	run := got.Runs[0]
	if got.APIVersion != "rehearse-k8s.github.io/v1alpha1" || got.Kind != "Report" || run.Verdict.Result != "failed" || run.Verdict.Step != 31 ||
		run.Departs != 26 || run.Nearest.Verdict.Result != "passed" || run.Steps[31].Behind["job"] != 3 || run.Steps[31].WokenBy != 23 {
		t.Errorf("got %+v", got)
	}
	b.Reset()
	if err := report.WriteJSON(&b, report.New(report.Of("stale.jsonl", stale(), passing()))); err != nil {
		t.Fatal(err)
	}
	golden(t, "stale.json", b.String())
	b.Reset()
	if err := report.WriteJSON(&b, report.New()); err != nil || !strings.Contains(b.String(), `"runs": []`) {
		t.Errorf("no runs: %s, %v", b.String(), err)
	}
}

func TestJUnit(t *testing.T) {
	hostile := lag()
	hostile.Failure.Message = "\x00 ]]> <&\uFFFE"
	all := report.New(report.Of("a/lag.jsonl", lag(), nil), report.Of("a/passing.jsonl", passing(), nil), report.Of("", replicas(), nil), report.Of("x", hostile, nil))
	var b bytes.Buffer
	if err := report.WriteJUnit(&b, all, report.LaneOptions{Around: 3}); err != nil {
		t.Fatal(err)
	}
	golden(t, "junit.xml", b.String())
	for dec := xml.NewDecoder(&b); ; {
		if _, err := dec.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestJUnitSeenOnce: a failure that does not reproduce is skipped, and listed.
func TestJUnitSeenOnce(t *testing.T) {
	run := report.Of("a/lag.jsonl", lag(), nil)
	run.SeenOnce = true
	var b bytes.Buffer
	if err := report.WriteJUnit(&b, report.New(run), report.LaneOptions{Around: 3}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`tests="1" failures="0" errors="0" skipped="1"`, `<skipped message="seen once: `} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// stale: a controller writes twice before it observes its own writes, and one write is rejected.
func stale() *history.Run {
	r := record()
	start := r.add(history.Step{Kind: history.Start, Actor: "job"})
	r.informer("job", "pods", "", 1, start)
	r.informer("job", "jobs.batch", "", 2, start)
	job := r.write("user", "create", "jobs.batch", "a", "", "")
	seen := r.frame("job", "ADDED", "jobs.batch", "a", 2, 11, "", job)
	r.write("job", "create", "pods", "a-1", "", "", seen)
	label := r.write("user", "patch", "jobs.batch", "a", "", "")
	seen = r.frame("job", "MODIFIED", "jobs.batch", "a", 2, r.truth, "", label)
	r.write("job", "create", "pods", "a-2", "", "", seen)
	r.add(history.Step{Kind: history.Request, Actor: "job", Verb: "update", Object: thing("jobs.batch", "a"), Subresource: "status", Code: 409, Guarded: true}, seen)
	return r.fail("at most 1 pod", "2 pods")
}

// TestStaleWrites: the table shows which writes were decided too early, and their outcome.
func TestStaleWrites(t *testing.T) {
	r := report.Of("", stale(), nil)
	if len(r.StaleWrites) != 2 || !r.StaleWrites[0].Accepted || r.StaleWrites[0].Own != 7 || r.StaleWrites[1].Outcome != "rejected: 409" {
		t.Errorf("got %+v", r.StaleWrites)
	}
	golden(t, "stale.txt", text(t, r))
	if got := report.StaleAnswer(r.StaleWrites[1:]); !strings.Contains(got, "1 write was decided") || !strings.Contains(got, "could reject each") {
		t.Errorf("got %q", got)
	}
	var many []report.StaleWrite
	for n := range 60 {
		row := r.StaleWrites[0]
		row.Resource = []string{"pods", "jobs.batch"}[n%2]
		many = append(many, row)
	}
	var b bytes.Buffer
	if err := report.WriteStale(&b, many, 0); err != nil || !strings.Contains(b.String(), "and 10 more") {
		t.Errorf("got %v\n%s", err, b.String())
	}
	if jobs, pods := strings.Index(b.String(), "\n  jobs.batch\n"), strings.Index(b.String(), "\n  pods\n"); jobs < 0 || pods < jobs || strings.Count(b.String(), "\n  pods\n") > 1 {
		t.Errorf("the rows are not grouped by resource:\n%s", b.String())
	}
}

// TestPictureArrows: late, lost, repeated, delayed and undelivered events have the right arrows.
func TestPictureArrows(t *testing.T) {
	for name, want := range map[string]string{
		"lag": "5→6 7→8 9→16:late 11→17:late 13→14 15→18:late", "lost": "3→4 6→7:lost", "answer": "3→4 5→end:open",
		"replicas": "6→7 | 6→8 14→15:twice",
	} {
		p := report.Of("", runs()[name], nil).Picture(1000)
		var lanes []string
		for i, l := range p.Lanes {
			if !l.Cache {
				continue
			}
			var arrows []string
			seen := map[string]bool{}
			for _, row := range p.Rows {
				for _, m := range row.Cells[i].Marks {
					if !m.From && !m.To || seen[m.Description] {
						continue
					}
					seen[m.Description] = true
					arrows = append(arrows, short(m))
				}
			}
			lanes = append(lanes, strings.Join(arrows, " "))
		}
		if got := strings.Join(lanes, " | "); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// short returns, for example, "7→8" or "9→16:late".
func short(m report.Mark) string {
	words := strings.Fields(strings.NewReplacer(",", "", ":", "").Replace(m.Description))
	text, numbers := "", 0
	for i, w := range words {
		if i > 0 && words[i-1] == "step" {
			if numbers++; numbers == 2 {
				text += "→"
			}
			text += w
		}
	}
	if numbers == 1 {
		text += "→end"
	}
	if m.How != "" {
		text += ":" + m.How
	}
	return text
}

// TestDiffs: the differences of objects follow their changes and the events that caches observe.
func TestDiffs(t *testing.T) {
	r := secondPod(t)
	var got []string
	for _, n := range []int{5, 14, 28, 31} {
		for _, d := range r.Steps[n].Diffs {
			line := []string{d.Of, d.Object.String()}
			for _, f := range d.Fields[:min(2, len(d.Fields))] {
				line = append(line, f.Op+f.Path)
			}
			got = append(got, strings.Join(line, " "))
		}
	}
	want := []string{
		"truth jobs.batch default/pi +apiVersion +kind",
		"truth jobs.batch default/pi +metadata.labels.controller-uid +metadata.labels.job-name",
		"cache pods default/pi-fnxlg -metadata.finalizers[0]",
		"truth pods default/pi-s9w7k +apiVersion +kind",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestFiles writes the runs of these tests to files that tests of other packages use.
func TestFiles(t *testing.T) {
	for _, name := range []string{"lag", "lost", "replicas", "passing"} {
		var b bytes.Buffer
		if err := history.Write(&b, runs()[name]); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".jsonl", b.String())
	}
}

// TestLongRun: following the caches takes about as long as reading the record.
func TestLongRun(t *testing.T) {
	run := &history.Run{}
	run.Add(history.Step{Kind: history.Start, Actor: "job"})
	run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "watch", Code: 200, Stream: 1, Object: history.Object{Resource: "pods"}})
	for i := range 10_000 {
		pod := history.Object{Resource: "pods", Namespace: "default", Name: fmt.Sprint("a-", i%100)}
		w := run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "update", Code: 200, Revision: int64(i + 2), Before: int64(i + 1), Object: pod}).N
		run.Add(history.Step{Kind: history.Frame, Actor: "job", Type: "MODIFIED", Stream: 1, Revision: int64(i + 2), Object: pod, Causes: []int{w}})
	}
	began := time.Now()
	p := report.Of("", run, nil).Picture(1000)
	if len(p.Rows) > 1000 || len(p.Rows)+p.LeftOut != len(run.Steps) {
		t.Errorf("%d rows, %d left out", len(p.Rows), p.LeftOut)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("20,000 steps took %s", took)
	} else {
		t.Logf("20,000 steps in %s", took)
	}
}

// TestDepartureOfProcesses: the steps of processes have no fixed order, so the first different write counts.
func TestDepartureOfProcesses(t *testing.T) {
	play := func(writes bool) *history.Run {
		r := record()
		r.Live = true
		start := r.add(history.Step{Kind: history.Start, Actor: "jobs"})
		if writes {
			r.wait(time.Second) // another number of steps
		}
		r.write("jobs", "create", "pods", "a", "", "", start)
		if writes {
			r.write("jobs", "delete", "pods", "a", "", "", start)
		}
		return r.Run
	}
	failing := play(false)
	failing.Failure = &history.Failure{Oracle: "pods default/a is gone", Step: len(failing.Steps) - 1, AtEnd: true}
	got := text(t, report.Of("", failing, play(true)))
	for _, want := range []string{
		"up to step 1 each actor wrote what it wrote in the nearest passing run\n",
		"step 1 here: jobs: create pods a → @11\nin the nearest passing run: jobs: delete pods a → @12\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}
