package store

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

func TestWorldsNeverMeet(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	one, two := WithRun(t.Context(), "one"), WithRun(t.Context(), "two")

	a := mustCreate(t, one, s, pod("ns", "same"))
	watchTwo := mustWatch(t, two, s, everything(1))
	mustUpdate(t, one, s, "/pods/ns/same", func(p *example.Pod) { p.Labels = map[string]string{"of": "one"} })
	b := mustCreate(t, two, s, pod("ns", "same"))
	if a.ResourceVersion != "2" || b.ResourceVersion != "2" {
		t.Errorf("the first writes are of revisions %s and %s", a.ResourceVersion, b.ResourceVersion)
	}
	if event := <-watchTwo.ResultChan(); event.Type != watch.Added || rvOf(t, event.Object) != 2 {
		t.Errorf("world two received %+v", event)
	}
	if got := mustList(t, two, s, storage.ListOptions{Predicate: storage.Everything}); len(got.Items) != 1 || len(got.Items[0].Labels) != 0 {
		t.Errorf("world two lists %+v", got.Items)
	}
	if got := mustList(t, t.Context(), s, storage.ListOptions{Predicate: storage.Everything}); len(got.Items) != 0 || got.ResourceVersion != "1" {
		t.Errorf("the process's world lists %+v", got)
	}
	if err := ws.World("one").Compact(3); err != nil {
		t.Fatal(err)
	}
	if got := ws.World("two").CompactRevision(); got != 0 {
		t.Errorf("compaction of one world reached the other: %d", got)
	}
	if ws.World("one").Revision() != 3 || ws.World("two").Revision() != 2 {
		t.Errorf("revisions %d and %d", ws.World("one").Revision(), ws.World("two").Revision())
	}
}

func TestWorldsNeverMeetUnderLoad(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			ctx := WithRun(t.Context(), fmt.Sprint(n))
			w, err := s.Watch(ctx, "/pods/", everything(1))
			if err != nil {
				t.Error(err)
				return
			}
			defer stop(w)
			for i := range int64(200) {
				p := pod("ns", fmt.Sprint(i))
				p.Labels = map[string]string{"world": fmt.Sprint(n)}
				mustCreate(t, ctx, s, p)
				event := <-w.ResultChan()
				if rvOf(t, event.Object) != i+2 || event.Object.(*example.Pod).Labels["world"] != fmt.Sprint(n) {
					t.Errorf("world %d received %+v", n, event.Object)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestDrop(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	run := WithRun(t.Context(), "run")
	mustCreate(t, run, s, pod("ns", "a"))
	mine := mustCreate(t, t.Context(), s, pod("ns", "a"))
	w, err := s.Watch(run, "/pods/", everything(2))
	if err != nil {
		t.Fatal(err)
	}
	old := ws.World("run")

	ws.Drop("run")
	if event, open := <-w.ResultChan(); open {
		t.Errorf("a watch of a dropped run received %+v", event)
	}
	ws.Drop("run") // a second Drop does nothing
	if got := ws.World("run"); got == old || got.Revision() != 1 {
		t.Error("the run's name still selects the dropped world")
	}
	if err := s.Get(t.Context(), "/pods/ns/a", storage.GetOptions{}, mine); err != nil {
		t.Errorf("the process's world lost an object: %v", err)
	}
	// A call with the world from before Drop must not hang.
	late := s.newWatcher(run, "/pods/", everything(1))
	late.world = old
	late.begin(1, plan{})
	go late.run()
	if event, open := <-late.ResultChan(); open {
		t.Errorf("a late watch received %+v", event)
	}
}
