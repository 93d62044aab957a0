package html

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	parser "golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

func recorded(t testing.TB, name string) *history.Run {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", name))
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

func write(t interface{ Fatal(...any) }, runs ...*report.Run) string {
	var b bytes.Buffer
	if err := Write(&b, report.New(runs...)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// covered is the coverage of a search.
var covered = []coverage.Row{
	{
		Write: coverage.Write{Actor: "job", Verb: "create", Resource: "pods"}, Caches: map[string][]string{"jobs.batch": {"0"}, "pods": {"0", "1", "2-3"}},
		Tried: []fault.Kind{fault.KindCrashBefore, fault.KindCrashAfter}, NotTried: []fault.Kind{fault.KindLostAnswer}, Impossible: []fault.Kind{fault.KindConflict},
		Reasons:  map[fault.Kind]string{fault.KindLostAnswer: "the search ended before", fault.KindConflict: "the write names no resourceVersion"},
		Relisted: []string{"pods"}, NotRelisted: []string{"jobs.batch"},
	},
	{Write: coverage.Write{Actor: "job", Verb: "delete", Resource: "pods"}, Tried: []fault.Kind{fault.KindLostAnswer}},
}

// TestCoverageLimits: a table with many rows, long texts and unknown kinds stays within the limits of the page, and text from a file is
// only ever text.
func TestCoverageLimits(t *testing.T) {
	run := report.Of("", recorded(t, "lag.jsonl"), nil)
	name := strings.Repeat("<b>&\u202e", 1000)
	for range 3000 {
		c := coverage.Row{Write: coverage.Write{Actor: name, Verb: "create", Resource: name}, Caches: map[string][]string{name: {name}}, Reasons: map[fault.Kind]string{}}
		for n := range 20 {
			k := fault.Kind(fmt.Sprint(n, name))
			c.NotTried, c.Reasons[k] = append(c.NotTried, k), name
		}
		run.Coverage = append(run.Coverage, c)
	}
	got := write(t, run)
	if len(got) > Limit || !strings.Contains(got, "kinds of write") || strings.Contains(got, "<b>") || strings.Contains(got, "\u202e") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestPage compares whole pages without the style, the script and their hashes.
func TestPage(t *testing.T) {
	for _, name := range []string{"lag", "lost", "replicas", "passing"} {
		var nearest *history.Run
		if name == "lag" {
			nearest = recorded(t, "passing.jsonl")
		}
		run := report.Of(name+".jsonl", recorded(t, name+".jsonl"), nearest)
		if name == "lag" {
			run.Coverage = covered
		}
		got := write(t, run)
		for _, part := range []string{styleText, scriptText} {
			if !strings.Contains(got, part) {
				t.Errorf("%s: the style or the script is not on the page as it is hashed", name)
			}
			got = strings.Replace(got, part, "…", 1)
		}
		_, rest, _ := strings.Cut(got, "<body>")
		path := filepath.Join("testdata", name+".html")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(path, []byte(rest), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), rest); d != "" {
			t.Errorf("%s (UPDATE_GOLDEN=1 writes it again)\n%s", path, d)
		}
	}
}

// TestSelfContained: the page refers to nothing outside of itself.
func TestSelfContained(t *testing.T) {
	got := write(t, report.Of("", recorded(t, "second-pod.jsonl"), recorded(t, "second-pod.nearest.jsonl")))
	for _, word := range []string{"http:", "https:", "//cdn", "@import", "url("} {
		if strings.Contains(got, word) {
			t.Errorf("%q is on the page", word)
		}
	}
	if !strings.Contains(got, noScriptStyle) {
		t.Error("the style for pages without script is not what the policy allows")
	}
	t.Logf("%d bytes", len(got))
}

func TestWriterFails(t *testing.T) {
	broken := errors.New("the disk is full")
	if err := Write(fails{broken}, report.New()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type fails struct{ err error }

func (f fails) Write([]byte) (int, error) { return 0, f.err }

// TestLimit: long runs, long names, many faults, many controllers, many runs.
func TestLimit(t *testing.T) {
	name := strings.Repeat("<b>&\u202e", 20_000)
	long := &history.Run{Header: history.Header{Test: name}}
	for range 300 {
		long.Faults = append(long.Faults, "lag "+name)
	}
	for i := range 1500 {
		long.Add(history.Step{Kind: history.Start, Actor: fmt.Sprint(name[:200], i%500)})
		object := history.Object{Resource: "pods", Name: name[:300] + fmt.Sprint(i)}
		content := map[string]any{}
		for n := range 20 {
			content[fmt.Sprint("field", n)] = name[:500]
		}
		c, err := history.ChangeOf(object, int64(i+2), nil, content, true)
		if err != nil {
			t.Fatal(err)
		}
		s := history.Step{Kind: history.Request, Actor: "job", Verb: "create", Code: 201, Revision: int64(i + 2), Object: object, Changes: []history.Change{c}}
		if i > 0 {
			s.Causes = []int{len(long.Steps) - 2}
		}
		long.Add(s)
	}
	long.Failure = &history.Failure{Oracle: name, Message: name, Step: len(long.Steps) - 1}
	got := write(t, report.Of(name, long, nil))
	if len(got) > Limit || !strings.Contains(got, "Shortened to stay below") || !strings.Contains(got, "left out") || !strings.Contains(got, "violated after step 2999") {
		t.Errorf("a long run: %d bytes", len(got))
	}
	t.Logf("a long run: %d bytes", len(got))

	small := report.Of("lag.jsonl", recorded(t, "lag.jsonl"), nil)
	var many []*report.Run
	for range 1000 {
		many = append(many, small)
	}
	got = write(t, many...)
	if len(got) > Limit || !strings.Contains(got, "runs left out") {
		t.Errorf("many runs: %d bytes", len(got))
	}
	t.Logf("many runs: %d bytes", len(got))
}

// anyRun draws runs that may be invalid.
func anyRun(t *rapid.T) *history.Run {
	word := rapid.OneOf(rapid.SampledFrom([]string{"", "job", "user", "kubelet", "pods", "a", "list", "watch", "create", "patch", "BOOKMARK", "ADDED", "lag resource=pods", "lost", "late", "twice"}),
		rapid.StringN(0, 12, -1), rapid.SampledFrom([]string{`"><script>alert(1)</script>`, "</style>", "{{.}}", "\x00\x1b", "\u202e", "<!--", "]]>", strings.Repeat("x", 5000)}))
	small := rapid.Int64Range(-1, 12)
	run := &history.Run{Header: history.Header{Test: word.Draw(t, "test"), Live: rapid.Bool().Draw(t, "live"), Faults: rapid.SliceOfN(word, 0, 3).Draw(t, "faults")}}
	kinds := []history.Kind{history.Start, history.Crash, history.Request, history.Request, history.Request, history.Answer, history.Frame, history.Frame, history.Cut, history.Time, history.Fault, "?"}
	for n := range rapid.IntRange(0, 40).Draw(t, "steps") {
		s := history.Step{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Actor: word.Draw(t, "actor"), Verb: word.Draw(t, "verb"), Type: word.Draw(t, "type"),
			Object: history.Object{Resource: word.Draw(t, "resource"), Namespace: word.Draw(t, "namespace"), Name: word.Draw(t, "name"), UID: word.Draw(t, "uid")},
			Query:  word.Draw(t, "query"), Stream: int(small.Draw(t, "stream")), Code: rapid.SampledFrom([]int{0, 200, 201, 409, 500}).Draw(t, "code"),
			Reply: word.Draw(t, "reply"), Revision: small.Draw(t, "revision"), Before: small.Draw(t, "before"), Truth: small.Draw(t, "truth"),
			Fault: word.Draw(t, "fault"), Note: word.Draw(t, "note"), Guarded: rapid.Bool().Draw(t, "guarded"),
		}
		if n > 0 {
			s.Causes = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 2).Draw(t, "causes")
		}
		if rapid.Bool().Draw(t, "changes") {
			patch := rapid.SampledFrom([]string{`{}`, `{"a":{"b":[1,null,{"<x>":"</script>"}]}}`, `{"a":null}`, `7`, ``, `{"metadata":{"name":1e400}}`}).Draw(t, "patch")
			s.Changes = []history.Change{{Object: s.Object, Revision: s.Revision, Patch: []byte(patch), Gone: rapid.Bool().Draw(t, "gone")}}
		}
		run.Add(s)
	}
	if rapid.Bool().Draw(t, "failed") {
		run.Failure = &history.Failure{Oracle: word.Draw(t, "oracle"), Message: word.Draw(t, "message"), Step: rapid.IntRange(-1, 41).Draw(t, "failed at")}
	}
	return run
}

func anyPage(t *rapid.T) {
	run := anyRun(t)
	var nearest *history.Run
	if rapid.Bool().Draw(t, "has nearest") {
		nearest = anyRun(t)
	}
	got := write(t, report.Of("f", run, nearest))
	if len(got) > Limit {
		t.Fatalf("%d bytes", len(got))
	}
	checkPage(t, got)
	var b bytes.Buffer
	if err := errors.Join(report.WriteJSON(&b, report.New(report.Of("f", run, nearest))), report.WriteJUnit(&b, report.New(report.Of("f", run, nearest)), report.LaneOptions{Around: 2})); err != nil {
		t.Fatal(err)
	}
}

// TestAnyRun: drawing never fails, and text from the record is only ever text on the page.
func TestAnyRun(t *testing.T) { rapid.Check(t, anyPage) }

// FuzzAnyRun is TestAnyRun for fuzzing.
func FuzzAnyRun(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyPage)) }

// checkPage parses a page and looks for elements that could only come from a record.
func checkPage(t *rapid.T, page string) {
	scripts := 0
	z := parser.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case parser.ErrorToken:
			if scripts != 1 {
				t.Fatalf("%d scripts", scripts)
			}
			return
		case parser.StartTagToken, parser.SelfClosingTagToken:
			token := z.Token()
			switch token.Data {
			case "script":
				scripts++
			case "img", "iframe", "object", "embed", "base", "b":
				t.Fatalf("<%s> is on the page", token.Data)
			}
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#r") && a.Val != "data:," {
					t.Fatalf("<%s %s=%q> is on the page", token.Data, a.Key, a.Val)
				}
			}
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	run, nearest := recorded(b, "second-pod.jsonl"), recorded(b, "second-pod.nearest.jsonl")
	for b.Loop() {
		if err := Write(&bytes.Buffer{}, report.New(report.Of("", run, nearest))); err != nil {
			b.Fatal(err)
		}
	}
}
