package upstream_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

const (
	page = "../../docs/reference/upstream-controllers.md"
	most = 200_000 // bytes of a file
)

// finding is a row of the page that has a file.
type finding struct{ invariant, faults, grade, file string }

var link = regexp.MustCompile(`\(\.\./\.\./test/upstream/(testdata/[^)]+\.jsonl)\)`)

// grade is a rate at which a failure reproduces: 2 of the repeats at least.
var grade = regexp.MustCompile(`^(3 of 3|([2-9]|10) of 10|([2-9]|1[0-9]|20) of 20)$`)

// findings parses the table: the last four cells of each row.
func findings(t *testing.T) (all []finding) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		m := link.FindStringSubmatch(line)
		if m == nil || len(cells) < 4 {
			continue
		}
		last := cells[len(cells)-4:]
		all = append(all, finding{last[0], strings.ReplaceAll(last[1], "`", ""), last[2], m[1]})
	}
	return all
}

// TestPage compares the page with the recorded runs.
func TestPage(t *testing.T) {
	listed := map[string]bool{}
	for _, f := range findings(t) {
		listed[f.file], listed[report.NearestFile(f.file)] = true, true
		failed := read(t, f.file)
		if failed.Failure == nil {
			t.Errorf("%s: it contains no failure", f.file)
			continue
		}
		if failed.Failure.Oracle != f.invariant {
			t.Errorf("%s: violated %q; the page contains %q", f.file, failed.Failure.Oracle, f.invariant)
		}
		if faults := strings.Join(failed.Faults, "; "); faults != f.faults {
			t.Errorf("%s: its faults are %q; the page contains %q", f.file, faults, f.faults)
		}
		if !grade.MatchString(f.grade) || !failed.Live {
			t.Errorf("%s: repeated %q; want, for example, 3 of 3, 7 of 10 or 2 of 20", f.file, f.grade)
		}
		if nearest := read(t, report.NearestFile(f.file)); nearest.Failure != nil {
			t.Errorf("%s: the nearest run failed too", f.file)
		}
	}
	if len(listed) == 0 {
		t.Error("the page lists no file")
	}
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !listed[file] {
			t.Errorf("%s: the page does not list it", file)
		}
	}
}

func read(t *testing.T, file string) *history.Run {
	t.Helper()
	data, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	run, err := history.Read(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if info, err := data.Stat(); err != nil || info.Size() > most {
		t.Errorf("%s: %v, or more than %d bytes", file, err, most)
	}
	return run
}
