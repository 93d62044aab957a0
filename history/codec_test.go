package history_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/history"
)

// anyRun generates runs in which every field is set somewhere.
func anyRun(t *rapid.T) *history.Run {
	text := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 8, -1), rapid.SampledFrom([]string{"pods", "<&>", "\xff\xfe", "a\nb", "\u2028"}))
	number := rapid.Int64()
	run := &history.Run{Header: history.Header{
		Format: history.Format, Tool: "v1", Test: strings.ToValidUTF8(text.Draw(t, "test"), "?"), Seed: rapid.Uint64().Draw(t, "seed"),
		Faults:   rapid.SliceOfN(rapid.Just("lag nth=1"), 0, 2).Draw(t, "faults"),
		Schedule: rapid.SampledFrom([]history.Schedule{{}, {Seed: 1<<64 - 1, Depth: 1, Choices: 1}, {Depth: history.MaxDepth, Choices: 1 << 20}}).Draw(t, "schedule"),
		Start:    time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "start"), 5).UTC(),
	}}
	kinds := []history.Kind{history.Start, history.Crash, history.Request, history.Answer, history.Frame, history.Cut, history.Time, history.Fault}
	for n := range rapid.IntRange(0, 6).Draw(t, "steps") {
		s := history.Step{
			At: time.Duration(number.Draw(t, "at")), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Actor: text.Draw(t, "actor"),
			Verb: text.Draw(t, "verb"), Subresource: text.Draw(t, "sub"), Query: text.Draw(t, "query"), Type: text.Draw(t, "type"),
			Object: history.Object{Resource: text.Draw(t, "resource"), Namespace: text.Draw(t, "ns"), Name: text.Draw(t, "name"), UID: text.Draw(t, "uid")},
			Stream: rapid.Int().Draw(t, "stream"), Code: rapid.Int().Draw(t, "code"), Reply: text.Draw(t, "reply"),
			Revision: number.Draw(t, "rev"), Before: number.Draw(t, "before"), Truth: number.Draw(t, "truth"), Guarded: rapid.Bool().Draw(t, "guarded"),
			Digest: text.Draw(t, "digest"), Fault: text.Draw(t, "fault"), Note: text.Draw(t, "note"),
		}
		s.Versioned, s.Older = rapid.Bool().Draw(t, "versioned"), rapid.Bool().Draw(t, "older")
		for range rapid.IntRange(0, 2).Draw(t, "unrecorded") {
			a := s // Add replaces invalid UTF-8 only in the texts of steps
			a.Actor, a.Verb, a.Object, a.Subresource, a.Query, a.Type, a.Note = "c", "create", history.Object{Resource: "pods", Name: "a"}, "status", "limit=1", "ADDED", "n"
			s.Unrecorded = append(s.Unrecorded, a.Arrived())
		}
		if n > 0 {
			s.Causes = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "causes")
		}
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			c, err := history.ChangeOf(s.Object, s.Revision, anyObject(t, "before"), anyObject(t, "after"), rapid.Bool().Draw(t, "first"))
			if err != nil {
				t.Fatal(err)
			}
			c.Object = history.Object{Resource: "pods", Name: "a"} // Add replaces invalid UTF-8 only in the texts of steps
			s.Changes = append(s.Changes, c)
		}
		run.Add(s)
	}
	switch rapid.IntRange(0, 2).Draw(t, "verdict") {
	case 0:
		run.Failure = &history.Failure{Oracle: "at most 1 pod", Message: "2", Step: max(0, len(run.Steps)-1), At: time.Second}
	case 1:
		run.Inconclusive = "the budget ran out"
	}
	return run
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyRun(t)
		text := write(t, want)
		got, err := history.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		if !bytes.Equal(text, write(t, got)) {
			t.Fatal("written again it is another text")
		}
		// Read rejects every truncated record.
		cut := rapid.IntRange(0, len(text)-2).Draw(t, "cut")
		if _, err := history.Read(bytes.NewReader(text[:cut])); err == nil {
			t.Fatalf("cut to %d of %d bytes it is still read", cut, len(text))
		}
	})
}

func write(t interface {
	Helper()
	Fatal(...any)
}, run *history.Run) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := history.Write(&buf, run); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func small() *history.Run {
	run := &history.Run{Header: history.Header{Format: history.Format, Seed: 7, Faults: []string{"lag resource=pods nth=2"},
		Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	run.Add(history.Step{Kind: history.Start, Actor: "job"})
	run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "create", Code: 201, Revision: 5, Truth: 5,
		Object: history.Object{Resource: "pods", Namespace: "default", Name: "a"}, Causes: []int{0}})
	run.Add(history.Step{Kind: history.Time, At: 3 * time.Second})
	run.Failure = &history.Failure{Oracle: "at most 0 pods", Message: "1 pod", Step: 1}
	return run
}

var update = flag.Bool("update", os.Getenv("UPDATE_GOLDEN") != "", "write the golden file again")

// TestFormat checks that files in users' repositories stay readable: when it fails, either the
// change is wrong or Format must be increased.
func TestFormat(t *testing.T) {
	const golden = "testdata/small.jsonl"
	got := write(t, small())
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("UPDATE_GOLDEN=1 writes it again (-want +got)\n%s", d)
	}
}

func TestReadRejects(t *testing.T) {
	lines := strings.SplitAfter(string(write(t, small())), "\n") // header, 3 steps, verdict, ""
	with := func(n int, old, new string) string {
		l := append([]string(nil), lines...)
		if !strings.Contains(l[n-1], old) {
			t.Fatalf("line %d has no %q: %s", n, old, l[n-1])
		}
		l[n-1] = strings.Replace(l[n-1], old, new, 1)
		return strings.Join(l, "")
	}
	whole := strings.Join(lines, "")
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"garbage", "\x00\x01\x02", "line 1: no header"},
		{"other JSON", "{}\n", "line 1: no header"},
		{"array", "[1]\n", "line 1: no header"},
		{"other format", with(1, `"format":1`, `"format":2`), "line 1: format is 2 and this version reads 1"},
		{"unknown field of the header", with(1, `"seed":7`, `"sede":7`), `line 1: unknown field "sede"`},
		{"wrong type in the header", with(1, `"seed":7`, `"seed":"7"`), "line 1: seed is a JSON string, and not a uint64"},
		{"schedule without a depth", with(1, `"seed":7`, `"seed":7,"schedule":{"seed":3,"choices":9}`), "line 1: schedule.depth is 0 and must be from 1 to 16"},
		{"schedule of negative depth", with(1, `"seed":7`, `"seed":7,"schedule":{"seed":3,"depth":-1,"choices":9}`), "line 1: schedule.depth is -1"},
		{"schedule without choices", with(1, `"seed":7`, `"seed":7,"schedule":{"seed":3,"depth":2}`), "line 1: schedule.choices must be above 0"},
		{"unknown field of a schedule", with(1, `"seed":7`, `"seed":7,"schedule":{"deep":2}`), `line 1: unknown field "deep"`},
		{"no verdict", strings.Join(lines[:4], ""), "line 4: the file ends without a verdict"},
		{"header only", lines[0], "line 1: the file ends without a verdict"},
		{"cut in a line", whole[:len(whole)-20], "line 5: the line ends in the middle of JSON"},
		{"changed step", with(3, `"name":"a"`, `"name":"b"`), "line 3: hash is "},
		{"changed time", with(4, `"at":3000000000`, `"at":3000000001`), "line 4: hash is "},
		{"changed hash", with(2, `"hash":"`, `"hash":"x`), "line 2: hash "},
		{"no hash", with(2, `"hash"`, `"note"`), "line 2: hash is 0000000000000000"},
		{"missing step", strings.Join(append(append([]string{}, lines[:2]...), lines[3:]...), ""), "line 3: n is 2 and should be 1"},
		{"cause in the future", with(3, `"causes":[0]`, `"causes":[1]`), "line 3: causes has 1"},
		{"unknown kind", with(2, `"kind":"start"`, `"kind":"begin"`), `line 2: kind is "begin"`},
		{"unknown field", with(2, `"actor"`, `"actress"`), `line 2: unknown field "actress"`},
		{"wrong type", with(3, `"code":201`, `"code":"201"`), "line 3: code is a JSON string, and not a int"},
		{"not an object", with(3, lines[2], "7\n"), "line 3: a JSON number, and not an object"},
		{"empty line", with(3, lines[2], "\n"), "line 3: an empty line"},
		{"two objects in a line", with(2, "}\n", "} {}\n"), "line 2: something follows the JSON object"},
		{"two runs", whole + whole, "line 6: something follows the verdict"},
		{"two verdicts", with(5, `{"failure"`, `{"held":true,"failure"`), "line 5: neither a step (kind) nor a verdict"},
		{"no verdict but a line", with(5, lines[4], "{}\n"), "line 5: neither a step (kind) nor a verdict"},
		{"step and verdict", with(2, `"kind"`, `"held":true,"kind"`), "line 2: it is a step (kind) and a verdict"},
		{"a change of nothing", with(3, `"causes"`, `"changes":[{"rev":1}],"causes"`), "line 3: changes: a change must have either a patch or gone"},
		{"a change and gone", with(3, `"causes"`, `"changes":[{"rev":1,"patch":{},"gone":true}],"causes"`), "line 3: changes: a change must have either a patch or gone"},
		{"a patch of a list", with(3, `"causes"`, `"changes":[{"rev":1,"patch":[1]}],"causes"`), "line 3: changes: was and patch must be JSON objects"},
		{"unknown field of a change", with(3, `"causes"`, `"changes":[{"rev":1,"past":{}}],"causes"`), `line 3: unknown field "past"`},
		{"failure at no step", with(5, `"step":1`, `"step":3`), "line 5: failure.step is 3, and the last step is 2"},
		{"endless line", strings.Repeat("x", 5<<20), "line 1: longer than 4194304 bytes"},
	} {
		run, err := history.Read(strings.NewReader(tc.text))
		if err == nil || run != nil || !strings.HasPrefix(err.Error(), "history: ") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q in it", tc.name, err, tc.want)
		}
	}
	broken := errors.New("the disk is gone")
	if _, err := history.Read(fails{broken}); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

type fails struct{ err error }

func (f fails) Read([]byte) (int, error)  { return 0, f.err }
func (f fails) Write([]byte) (int, error) { return 0, f.err }

func TestWriteRejects(t *testing.T) {
	run := small()
	run.Inconclusive = "both"
	if err := history.Write(&bytes.Buffer{}, run); err == nil || !strings.Contains(err.Error(), "set one of Failure and Inconclusive") {
		t.Errorf("both verdicts: %v", err)
	}
	broken := errors.New("the disk is full")
	if err := history.Write(fails{broken}, small()); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
}

func TestDiverged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := anyRun(t)
		if step, ok := history.Diverged(run, run); ok || step != len(run.Steps) {
			t.Fatalf("from itself: %d, %t", step, ok)
		}
		if len(run.Steps) == 0 {
			return
		}
		at := rapid.IntRange(0, len(run.Steps)-1).Draw(t, "at")
		other := &history.Run{}
		for i, s := range run.Steps {
			if i == at {
				s.Truth++
			}
			other.Add(s)
		}
		if step, ok := history.Diverged(run, other); !ok || step != at {
			t.Fatalf("changed at %d: %d, %t", at, step, ok)
		}
		shorter := &history.Run{Steps: run.Steps[:at]}
		for _, pair := range [][2]*history.Run{{run, shorter}, {shorter, run}} {
			if step, ok := history.Diverged(pair[0], pair[1]); !ok || step != at {
				t.Fatalf("cut at %d: %d, %t", at, step, ok)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	whole := write(f, small())
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("{\"format\":1,\"start\":\"2026-01-01T00:00:00Z\"}\n{\"held\":true}"))
	f.Add(bytes.Replace(whole, []byte(`"causes":[0]`), []byte(`"causes":[0],"changes":[{"name":"a","rev":5,"was": {"a":1e400},"patch":{"b": null}},{"rev":6,"gone":true}]`), 1))
	f.Add([]byte("{\"format\":1}\n{\"kind\":\"start\",\"causes\":[-1]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := history.Read(bytes.NewReader(data))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "history: ") {
				t.Fatalf("the error does not say where it comes from: %v", err)
			}
			return
		}
		again, err := history.Read(bytes.NewReader(write(t, run)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(run, again, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

func BenchmarkWriteRead(b *testing.B) {
	run := &history.Run{}
	for i := range 300 {
		run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "create", Code: 201, Revision: int64(i), Truth: int64(i),
			Object: history.Object{Resource: "pods", Namespace: "default", Name: fmt.Sprint("a-", i)}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := history.Read(bytes.NewReader(write(b, run))); err != nil {
			b.Fatal(err)
		}
	}
}
