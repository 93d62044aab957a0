package invariant

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/history"
)

// behindNaively checks every write of the record, as the rule is stated.
func behindNaively(t *tracker, actor string, of func(*history.Step) bool) (write int, lagging cache, ok bool) {
	var all []int
	for _, some := range t.writes {
		all = append(all, some...)
	}
	slices.Sort(all)
	for _, n := range slices.Backward(all) {
		s := &t.run.Steps[n]
		var last *cache
		fresh := false
		for _, c := range t.caches[actor] {
			if t.covers(c, s) {
				last = c
				fresh = fresh || c.reached >= s.Revision
			}
		}
		if last != nil && !fresh && of(s) {
			return n, *last, true
		}
	}
	return 0, cache{}, false
}

// TestBehind checks that skipping the writes that all caches have observed does not change the result, for all
// actors and also if revisions are in no order.
func TestBehind(t *testing.T) {
	resources := []string{"pods", "jobs.batch", "secrets"}
	rapid.Check(t, func(t *rapid.T) {
		run := &history.Run{}
		revision := int64(10)
		for stream, kind := range rapid.SliceOfN(rapid.SampledFrom(resources), 1, 4).Draw(t, "watches") {
			query := rapid.SampledFrom([]string{"", "", "labelSelector=a%3Db"}).Draw(t, "query")
			namespace := rapid.SampledFrom([]string{"", "", "a"}).Draw(t, "namespace")
			run.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "watch", Stream: stream + 1, Code: 200, Query: query, Object: history.Object{Resource: kind, Namespace: namespace}})
		}
		watches := len(run.Steps)
		ordered := rapid.Bool().Draw(t, "ordered")
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "write") {
				at := revision + 1
				if revision++; !ordered {
					at = rapid.Int64Range(5, revision).Draw(t, "at")
				}
				run.Add(history.Step{Kind: history.Request, Actor: rapid.SampledFrom([]string{"c", "user"}).Draw(t, "actor"), Verb: "patch", Code: 200, Before: 1, Revision: at,
					Object: history.Object{Resource: rapid.SampledFrom(resources).Draw(t, "resource"), Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), Name: "x"}})
				continue
			}
			stream := rapid.IntRange(1, watches).Draw(t, "stream")
			run.Add(history.Step{Kind: history.Frame, Actor: "c", Stream: stream, Type: "MODIFIED", Revision: rapid.Int64Range(9, revision).Draw(t, "reaches"),
				Object: history.Object{Resource: run.Steps[stream-1].Resource, Namespace: "a", Name: "x"}})
		}
		tr := newTracker(run)
		for i := range run.Steps {
			tr.observe(i)
			for name, of := range map[string]func(*history.Step) bool{
				"any": func(*history.Step) bool { return true },
				"own": func(s *history.Step) bool { return s.Actor == "c" },
			} {
				write, lagging, ok := tr.behind("c", of)
				wantWrite, wantLagging, want := behindNaively(tr, "c", of)
				if ok != want || write != wantWrite || lagging != wantLagging {
					t.Fatalf("after step %d, %s: %d %+v %v, want %d %+v %v", i, name, write, lagging, ok, wantWrite, wantLagging, want)
				}
			}
		}
	})
}

// BenchmarkStaleWrites reads a long record in which no cache lags: each write is observed before the next
// decision.
func BenchmarkStaleWrites(b *testing.B) {
	for _, pods := range []int{1000, 10_000, 100_000} {
		run := &history.Run{}
		run.Add(history.Step{Kind: history.Start, Actor: "c"})
		run.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "watch", Stream: 1, Code: 200, Object: history.Object{Resource: "pods"}})
		cause := 1
		for n := range pods {
			o := history.Object{Resource: "pods", Namespace: "default", Name: fmt.Sprint("p", n)}
			revision := int64(n + 10)
			w := run.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "create", Code: 201, Revision: revision, Object: o, Causes: []int{cause}}).N
			cause = run.Add(history.Step{Kind: history.Frame, Actor: "c", Stream: 1, Type: "ADDED", Revision: revision, Object: o, Causes: []int{w}}).N
		}
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			for b.Loop() {
				if found := StaleWrites(run); len(found) != 0 {
					b.Fatal(found[0])
				}
			}
		})
	}
}
