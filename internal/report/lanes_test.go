package report_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (UPDATE_GOLDEN=1 writes it again)\n%s", path, d)
	}
}

func draw(t *testing.T, run *history.Run, opt report.LaneOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.Lanes(&b, run, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestLanes(t *testing.T) {
	for name, run := range runs() {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".txt", "cause: "+report.Cause(run, nil)+"\n\n"+draw(t, run, report.LaneOptions{}))
			for _, width := range []int{1, 60, 80, 120, 200} {
				for _, l := range strings.Split(draw(t, run, report.LaneOptions{Width: width}), "\n") {
					if n := utf8.RuneCountInString(l); n > max(width, 60) {
						t.Errorf("at a width of %d a line has %d: %s", width, n, l)
					}
				}
			}
		})
	}
}

func TestAround(t *testing.T) {
	golden(t, "around.txt", draw(t, runs()["lag"], report.LaneOptions{Around: 2, Width: 90}))
}

func TestColour(t *testing.T) {
	run := runs()["lag"]
	plain, coloured := draw(t, run, report.LaneOptions{}), draw(t, run, report.LaneOptions{Colour: true})
	if strings.Contains(plain, "\x1b") || !strings.Contains(coloured, "\x1b[1;31m") {
		t.Error("colour is not where it was asked for")
	}
	if d := cmp.Diff(plain, strip(coloured)); d != "" {
		t.Errorf("without its colours the drawing is another\n%s", d)
	}
}

func strip(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !ok {
			break
		}
		_, s, _ = strings.Cut(rest, "m")
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TestHostile draws names with control characters, and invalid records.
func TestHostile(t *testing.T) {
	run := &history.Run{Header: history.Header{Test: "\x1b[2J", Faults: []string{"\x1b]0;x\a"}}}
	run.Add(history.Step{Kind: history.Start, Actor: "a\x1bb"})
	run.Add(history.Step{Kind: history.Frame, Actor: "a\x1bb", Stream: 9, Type: "\x1b", Revision: 4, Fault: "\x1b", Object: history.Object{Name: "\u202e"}})
	run.Add(history.Step{Kind: history.Answer, Actor: "a\x1bb", Causes: []int{0, 1}})
	run.Add(history.Step{Kind: history.Cut, Actor: "unknown", Stream: 77})
	run.Add(history.Step{Kind: history.Request, Actor: "some\x1bbody", Verb: "create", Code: 201, Revision: 9, Note: "\x1b"})
	for _, failed := range []int{-1, 0, 4, 5} {
		run.Failure = &history.Failure{Oracle: "\x1b", Message: "\x1b", Step: failed}
		text := draw(t, run, report.LaneOptions{Around: 1}) + report.Cause(run, nil)
		if strings.ContainsAny(text, "\x1b\a\u202e") {
			t.Errorf("an escape came through: %q", text)
		}
	}
	if got := draw(t, &history.Run{}, report.LaneOptions{}); !strings.Contains(got, "no invariant was violated") {
		t.Errorf("an empty run: %s", got)
	}
}

func TestManyControllers(t *testing.T) {
	run := &history.Run{}
	for _, c := range "abcdefghijklmnop" {
		run.Add(history.Step{Kind: history.Start, Actor: "controller-" + string(c)})
	}
	got := draw(t, run, report.LaneOptions{})
	if !strings.Contains(got, "no room for controller-p,") || !strings.Contains(got, "use more columns") {
		t.Errorf("got\n%s", got)
	}
}

func TestWriterFails(t *testing.T) {
	broken := errors.New("the pipe is gone")
	if err := report.Lanes(fails{broken}, &history.Run{}, report.LaneOptions{}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type fails struct{ err error }

func (f fails) Write([]byte) (int, error) { return 0, f.err }

func BenchmarkLanes(b *testing.B) {
	run := &history.Run{}
	run.Add(history.Step{Kind: history.Start, Actor: "job"})
	run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "watch", Code: 200, Stream: 1, Object: history.Object{Resource: "pods"}})
	for i := range 500 {
		pod := history.Object{Resource: "pods", Namespace: "default", Name: "a"}
		run.Add(history.Step{At: time.Duration(i), Kind: history.Request, Actor: "job", Verb: "update", Code: 200, Revision: int64(i + 2), Before: int64(i + 1), Object: pod})
		run.Add(history.Step{At: time.Duration(i), Kind: history.Frame, Actor: "job", Type: "MODIFIED", Stream: 1, Revision: int64(i + 2), Object: pod})
	}
	for b.Loop() {
		if err := report.Lanes(&bytes.Buffer{}, run, report.LaneOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
