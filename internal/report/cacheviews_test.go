package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/history"
)

// TestCacheViews follows caches through every event that can affect them.
func TestCacheViews(t *testing.T) {
	run := &history.Run{}
	var want []string // after each step
	add := func(caches string, s history.Step) {
		run.Add(s)
		want = append(want, caches)
	}
	all := history.Object{Resource: "pods"}
	pod := func(ns, name string) history.Object {
		return history.Object{Resource: "pods", Namespace: ns, Name: name}
	}
	write := func(verb, ns, name string, rev, before int64) history.Step {
		return history.Step{Kind: history.Request, Actor: "user", Verb: verb, Object: pod(ns, name), Code: 200, Revision: rev, Before: before}
	}
	list := func(rev int64) history.Step {
		return history.Step{Kind: history.Request, Actor: "job", Verb: "list", Object: all, Query: "limit=500", Code: 200, Revision: rev}
	}
	watch := history.Step{Kind: history.Request, Actor: "job", Verb: "watch", Object: all, Code: 200, Stream: 1}
	frame := func(typ string, rev int64, fault string) history.Step {
		return history.Step{Kind: history.Frame, Actor: "job", Type: typ, Object: pod("n", "a"), Stream: 1, Revision: rev, Fault: fault}
	}

	add("", history.Step{Kind: history.Start, Actor: "job"})
	add("", write("create", "n", "a", 3, 0))
	delayed := list(3)
	delayed.Reply = "late"
	add("", delayed)
	add("pods@3", history.Step{Kind: history.Answer, Actor: "job", Causes: []int{2}})
	add("pods@3", watch)
	add("pods@3 (-1)", write("update", "n", "a", 4, 3))
	add("pods@3 (-1)", list(4)) // an independent read: it does not fill the cache
	add("pods@3 (-1)", write("update", "n", "a", 4, 4))
	add("pods@4", frame("MODIFIED", 4, ""))
	add("pods@4 (-1)", write("update", "n", "a", 5, 4))
	add("pods@4 (-1)", frame("MODIFIED", 5, "lose-event nth=1"))
	add("pods@4 (-2)", write("update", "n", "a", 6, 5))
	add("pods@6 (-1)", frame("MODIFIED", 6, "lag nth=1"))
	add("pods@6 (-1)", frame("BOOKMARK", 7, "drop-bookmark nth=1"))
	add("pods@7 (-1)", frame("BOOKMARK", 7, ""))
	add("pods@7 (-1)", history.Step{Kind: history.Cut, Actor: "job", Stream: 1})
	throttled := list(0)
	throttled.Code = 429
	add("pods@7 (-1)", throttled)
	add("pods@7", list(7)) // the informer lists again and observes the lost event
	add("", history.Step{Kind: history.Crash, Actor: "job"})
	add("", history.Step{Kind: history.Start, Actor: "job"})
	add("pods@5 (-1)", list(5)) // from a server that is behind

	p := newReplay(run)
	var got []string
	for n := range run.Steps {
		p.advance(n + 1)
		text := ""
		for _, v := range p.viewsOf("job") {
			text += p.viewText(v)
		}
		got = append(got, text)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("after each step (-want +got)\n%s", d)
	}
}

// TestScopes checks caches of one namespace and of a selector.
func TestScopes(t *testing.T) {
	run := &history.Run{}
	watch := func(stream int, ns, query string) {
		run.Add(history.Step{Kind: history.Request, Actor: "job", Verb: "watch", Object: history.Object{Resource: "pods", Namespace: ns}, Query: query,
			Code: 200, Stream: stream})
	}
	watch(1, "n", "")
	watch(2, "", "fieldSelector=spec.nodeName=x&sendInitialEvents=true")
	create := func(ns, name string, rev int64) history.Object {
		o := history.Object{Resource: "pods", Namespace: ns, Name: name}
		run.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "create", Object: o, Code: 201, Revision: rev})
		return o
	}
	create("other", "a", 1)
	create("n", "b", 2)
	mine := create("other", "c", 3)
	seen := func() (got []int) {
		p := newReplay(run)
		p.advance(len(run.Steps))
		for _, v := range p.viewsOf("job") {
			got = append(got, len(p.unseen(v)))
		}
		return got
	}
	if d := cmp.Diff([]int{1, 0}, seen()); d != "" {
		t.Error(d)
	}
	run.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "update", Object: mine, Code: 200, Revision: 5, Before: 3})
	run.Add(history.Step{Kind: history.Frame, Actor: "job", Stream: 2, Type: "ADDED", Object: mine, Revision: 3})
	if d := cmp.Diff([]int{1, 1}, seen()); d != "" {
		t.Error(d)
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		word  string
		width int
		want  string
	}{
		{"web-1", 5, "web-1"}, {"default/web-1", 8, "de…web-1"}, {"ünïcödé", 4, "ü…dé"}, {"abc", 2, "ab"},
	} {
		if got := cut(tc.word, tc.width); got != tc.want {
			t.Errorf("%q in %d: %q, want %q", tc.word, tc.width, got, tc.want)
		}
	}
	if d := cmp.Diff([]string{"  aa", "bb cc", "dd e…"}, wrap("  aa bb cc dd ee ff", 5, 3)); d != "" {
		t.Error(d)
	}
}
