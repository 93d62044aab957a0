//go:build browser

package browser

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/internal/report/html"
)

var (
	//go:embed overlap.js
	overlapScript string

	wide   = screen{1280, 900, "light"}
	narrow = screen{390, 844, "light"}
)

// record reads a run from the test data of the report package.
func record(t *testing.T, name string) *history.Run {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "internal", "report", "testdata", name))
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

// write writes a page and returns its URL.
func write(t *testing.T, runs ...*report.Run) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := html.Write(f, report.New(runs...)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

func secondPod(t *testing.T) *report.Run {
	return report.Of("second-pod.jsonl", record(t, "second-pod.jsonl"), record(t, "second-pod.nearest.jsonl"))
}

const (
	selected = `document.querySelector('tr.on')?.id ?? ''`
	inView   = `(() => { const r = document.querySelector('tr.on')?.getBoundingClientRect(); return !!r && r.top >= 60 && r.bottom <= innerHeight })()`
	opened   = `document.querySelectorAll('tr.detail:not([hidden])').length`
	visible  = `Array.from(document.querySelectorAll('tr.step')).filter(r => r.checkVisibility()).length`
)

// TestOpensAtTheViolation checks that a report opens at the violation, on wide and narrow screens, or at the
// step in its URL.
func TestOpensAtTheViolation(t *testing.T) {
	url := write(t, secondPod(t))
	for _, s := range []screen{wide, narrow} {
		b := open(t, url, s)
		if at := ask[string](b, selected); at != "r1-31" || !ask[bool](b, inView) || !ask[bool](b, `document.querySelector('tr.on').classList.contains('violated')`) {
			t.Errorf("%d wide: opened at %q, in view %v", s.width, at, ask[bool](b, inView))
		}
	}
	if at := ask[string](open(t, url+"#r1-25", wide), selected); at != "r1-25" {
		t.Errorf("with an address of a step: opened at %q", at)
	}
	held := open(t, write(t, report.Of("", record(t, "second-pod.nearest.jsonl"), nil)), wide)
	if at, y := ask[string](held, selected), ask[float64](held, "scrollY"); at != "" || y != 0 {
		t.Errorf("a passing run: opened at %q, %v down", at, y)
	}
}

// TestKeys checks that each key does what the page documents.
func TestKeys(t *testing.T) {
	b := open(t, write(t, secondPod(t), secondPod(t)), wide)
	at := func(want string) {
		t.Helper()
		if got := ask[string](b, selected); got != want || !ask[bool](b, inView) {
			t.Errorf("at %q, want %q, in view %v", got, want, ask[bool](b, inView))
		}
	}
	b.press("k")
	at("r1-30")
	b.press(kb.ArrowUp, kb.ArrowUp, kb.ArrowDown)
	at("r1-29")
	b.press("j")
	at("r1-30")
	b.press(kb.Home)
	at("r1-0")
	b.press(kb.End)
	at("r2-31")
	b.press("n")
	at("r1-31")
	b.press("n")
	at("r2-31")

	b.press(kb.Enter)
	if n := ask[int](b, opened); n != 1 {
		t.Errorf("%d details are open after Enter", n)
	}
	if text := ask[string](b, `document.querySelector('tr.detail:not([hidden])').innerText`); !strings.Contains(text, "the truth: pods default/pi-s9w7k nothing → @1009") || !strings.Contains(text, "metadata.ownerReferences[0].name") {
		t.Errorf("the details contain %q", text)
	}
	b.press(kb.Enter)
	if n := ask[int](b, opened); n != 0 {
		t.Errorf("%d details are open after Enter again", n)
	}

	b.press("/")
	b.do(chromedp.SendKeys(chromedp.CSS("#filter"), "kubelet PODS"))
	if n := ask[int](b, visible); n == 0 || n > 20 {
		t.Errorf("%d steps match the filter %q", n, ask[string](b, `document.getElementById("filter").value + "; " + document.getElementById("found").textContent`))
	}
	if said := ask[string](b, `document.getElementById('found').textContent`); !strings.Contains(said, " of ") {
		t.Errorf("the filter shows %q", said)
	}
	b.press(kb.Enter, "j")
	if at := ask[string](b, `document.querySelector('tr.on').dataset.find`); !strings.Contains(at, "kubelet pods") {
		t.Errorf("j among the filtered: %q", at)
	}
	b.press(kb.Escape)
	if n := ask[int](b, visible); n != 64 {
		t.Errorf("%d steps after the filter was cleared", n)
	}

	b.press("?")
	if !ask[bool](b, `document.getElementById('keys').open`) {
		t.Error("? does not show the keys")
	}
	b.press("j", kb.Escape)
	if ask[bool](b, `document.getElementById('keys').open`) {
		t.Error("Esc does not close the keys")
	}
	b.do(chromedp.Click(chromedp.CSS("#r1-30 > th")))
	if n := ask[int](b, opened); n != 1 {
		t.Errorf("%d details are open after a click", n)
	}
	at("r1-30")
}

// TestNothingOverlaps checks screens of all sizes, with all details and the nearest passing run open.
func TestNothingOverlaps(t *testing.T) {
	withCoverage := secondPod(t)
	withCoverage.Coverage = covered()
	for name, runs := range map[string][]*report.Run{"one": {secondPod(t)}, "many": {many(t)}, "covered": {withCoverage}} {
		url := write(t, runs...)
		for _, s := range []screen{{1280, 900, "light"}, {1280, 900, "dark"}, {390, 844, "light"}, {390, 844, "dark"}} {
			t.Run(fmt.Sprintf("%s-%d-%s", name, s.width, s.scheme), func(t *testing.T) {
				b := open(t, url, s)
				switch {
				case name == "one" && s == wide:
					b.picture("report.png")
				case name == "one" && s.width < 500 && s.scheme == "dark":
					b.picture("report-narrow.png")
				}
				b.clear(name != "many" || s.width < 500)
				b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll('tr.detail').forEach(d => d.hidden = false); document.querySelectorAll('details').forEach(d => d.open = true)`))
				b.clear(name != "many" || s.width < 500)
				if s.width > 1000 && s.scheme == "dark" { // about as wide as paper, which has a white background
					b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
					b.clear(name != "many")
				}
			})
		}
	}
}

// coverage returns what a search covered of two kinds of write, with all faults that it counts.
func covered() []coverage.Row {
	c := coverage.Row{
		Write: coverage.Write{Actor: "job", Verb: "create", Resource: "pods"}, Relisted: []string{"pods"}, NotRelisted: []string{"jobs.batch"},
		Caches: map[string][]string{"jobs.batch": {"0"}, "pods": {"0", "1", "2-3", "4+"}},
		Tried:  []fault.Kind{fault.KindCrashBefore, fault.KindCrashAfter, fault.KindLostAnswer}, NotTried: []fault.Kind{fault.KindLateRequest, fault.KindOutage, fault.KindDeposedWrite},
		Impossible: []fault.Kind{fault.KindConflict},
		Reasons: map[fault.Kind]string{
			fault.KindConflict: "the write names no resourceVersion", fault.KindOutage: "the search ended before", fault.KindDeposedWrite: "tried, but the write did not happen in those runs",
			fault.KindLateRequest: "redundant: shorter and longer ones made no difference",
		},
	}
	other := c
	other.Verb, other.Resource = "patch", "jobs.batch/status"
	return []coverage.Row{c, other}
}

// TestCoverageTable checks that the table of what the search covered shows each reason as text: in columns with a heading, and on narrow
// screens with the name of the fault in front of each reason.
func TestCoverageTable(t *testing.T) {
	run := secondPod(t)
	run.Coverage = covered()
	url := write(t, run)
	for _, s := range []screen{wide, narrow} {
		b := open(t, url, s)
		const shown = `Array.from(document.querySelectorAll('.coverage td:nth-child(n+3)')).filter(c => c.checkVisibility()).map(c => c.innerText.trim())`
		cells := ask[[]string](b, shown)
		if len(cells) != 14 || !slices.Contains(cells, "✓ tried") || !slices.Contains(cells, "– the write names no resourceVersion") || !slices.Contains(cells, "– the search ended before") {
			t.Errorf("%d pixels: the cells are %q", s.width, cells)
		}
		heading := ask[bool](b, `document.querySelector('.coverage thead').checkVisibility()`)
		label := ask[string](b, `getComputedStyle(document.querySelector('.coverage td:nth-child(3)'), '::before').content`)
		if isWide := s.width > 860; heading != isWide || strings.Contains(label, "conflict") == isWide {
			t.Errorf("%d pixels: a heading %v, the label of a cell %s", s.width, heading, label)
		}
	}
}

// clear checks that no element covers another, that all text is legible on its background and, if fits is set,
// that the page needs no horizontal scrolling.
func (b *tab) clear(fits bool) {
	b.t.Helper()
	for _, problem := range ask[[]string](b, overlapScript) {
		b.t.Error(problem)
	}
	if over := ask[float64](b, `document.documentElement.scrollWidth - innerWidth`); fits && over > 0 {
		b.t.Errorf("the page is %v pixels wider than the screen", over)
	}
}

// many returns a report with two replicas with long names.
func many(t *testing.T) *report.Run {
	t.Helper()
	run := &history.Run{Header: history.Header{Test: "TestReplicas", Faults: []string{"overlap actor=operator nth=1"}}}
	long := strings.Repeat("a-widget-with-quite-a-long-name-", 4)
	for i := range 3 {
		actor := fmt.Sprintf("operator/%d", i)
		n := run.Add(history.Step{Kind: history.Start, Actor: actor}).N
		run.Add(history.Step{Kind: history.Request, Actor: actor, Verb: "watch", Code: 200, Stream: i + 1, Object: history.Object{Resource: "widgets.example.com"}, Causes: []int{n}})
	}
	for i := range 9 {
		o := history.Object{Resource: "widgets.example.com", Namespace: "default", Name: fmt.Sprint(long, i)}
		w := run.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "create", Code: 201, Revision: int64(i + 2), Truth: int64(i + 2), Object: o}).N
		lost := ""
		if i%3 == 0 {
			lost = "lose-event actor=operator/0 object=" + o.Key()
		}
		run.Add(history.Step{Kind: history.Frame, Actor: "operator/0", Type: "ADDED", Stream: 1, Revision: int64(i + 2), Truth: int64(i + 2), Object: o, Fault: lost, Causes: []int{w}})
		run.Add(history.Step{Kind: history.Request, Actor: "operator/1", Verb: "update", Subresource: "status", Code: 409, Guarded: true, Object: o, Causes: []int{w}})
	}
	run.Failure = &history.Failure{Oracle: "at most 3 widgets", Message: "9 widgets", Step: len(run.Steps) - 1}
	return report.Of("", run, nil)
}

// TestHostile checks names that contain HTML and scripts.
func TestHostile(t *testing.T) {
	evil := `"><script>alert(1)</script><img src=x onerror=alert(2)></style><svg onload=alert(3)>`
	run := &history.Run{Header: history.Header{Test: evil, Faults: []string{evil}}}
	run.Add(history.Step{Kind: history.Start, Actor: evil, Note: evil})
	o := history.Object{Resource: evil, Namespace: evil, Name: evil, UID: evil}
	c, err := history.ChangeOf(o, 3, nil, map[string]any{evil: map[string]any{evil: evil}}, true)
	if err != nil {
		t.Fatal(err)
	}
	run.Add(history.Step{Kind: history.Request, Actor: evil, Verb: evil, Code: 201, Object: o, Query: evil, Fault: evil, Note: evil})
	run.Add(history.Step{Kind: history.Request, Actor: evil, Verb: "create", Code: 201, Revision: 3, Truth: 3, Object: o, Fault: evil, Note: evil, Changes: []history.Change{c}})
	run.Failure = &history.Failure{Oracle: evil, Message: evil, Step: 2}
	b := open(t, write(t, report.Of(evil, run, run)), wide)
	b.press(kb.Enter)
	if n := ask[int](b, `document.querySelectorAll('script, img, [onload], [onerror]').length`); n != 1 {
		t.Errorf("%d active elements on the page, want only the page's own script", n)
	}
	if text := ask[string](b, `document.querySelector('.verdict').textContent`); !strings.Contains(text, evil) {
		t.Errorf("the invariant is shown as %q", text)
	}
	if n := ask[int](b, opened); n != 1 {
		t.Errorf("%d details are open", n)
	}
}

// TestWithoutScript checks that the whole page is readable without scripts.
func TestWithoutScript(t *testing.T) {
	url := write(t, secondPod(t))
	b := open(t, "about:blank", wide)
	b.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}),
		chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS("tr.detail")))
}

// TestPrints checks that the printed page contains the lanes.
func TestPrints(t *testing.T) {
	b := open(t, write(t, secondPod(t)), wide)
	pdf := get(b, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize(), chromedp.PDFPrintBackground()))
	if len(pdf) < 10_000 {
		t.Fatalf("%d bytes of PDF", len(pdf))
	}
	if *images != "" && os.Getenv("REPORT_PDF") != "" {
		if err := os.WriteFile(filepath.Join(*images, "report.pdf"), pdf, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScreenshot saves the screenshots of the documentation.
func TestScreenshot(t *testing.T) {
	if *images == "" {
		t.Skip("no -images")
	}
	b := open(t, write(t, secondPod(t)), screen{1280, 900, "dark"})
	b.press("k", kb.Enter)
	b.picture("report-details.png")
}
