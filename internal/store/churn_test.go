package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	testingclock "k8s.io/utils/clock/testing"
)

// retained counts what a world keeps: the bytes of all values except the current ones, the versions
// in the chains, and the changes in the log.
func retained(w *World) (bytes int64, versions, changes int) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.keys.Scan(func(_ string, c *chain) bool {
		versions += len(c.versions)
		for _, v := range c.versions[:len(c.versions)-1] {
			bytes += int64(len(v.value))
		}
		return true
	})
	return bytes, versions, len(w.log.changes)
}

func TestChurnStaysWithinBytes(t *testing.T) {
	const budget = 256 << 10
	ws := New(Options{HistoryBytes: budget})
	s, w := pods(t, ws, nil), ws.World("")
	for i := range 20_000 {
		key := fmt.Sprintf("/pods/ns/p%d", i%7)
		switch {
		case i < 7:
			mustCreate(t, t.Context(), s, pod("ns", fmt.Sprintf("p%d", i)))
		case i%50 == 49:
			mustDelete(t, t.Context(), s, key)
			mustCreate(t, t.Context(), s, pod("ns", fmt.Sprintf("p%d", i%7)))
		default:
			mustUpdate(t, t.Context(), s, key, func(p *example.Pod) {
				p.Labels = map[string]string{"n": fmt.Sprint(i), "pad": strings.Repeat("x", i%60)}
			})
		}
		if i%1000 != 999 {
			continue
		}
		bytes, versions, changes := retained(w)
		if bytes > budget || w.log.bytes > budget {
			t.Fatalf("after %d writes: %d bytes of old values, %d accounted; the budget is %d", i, bytes, w.log.bytes, budget)
		}
		if limit := budget/changeOverhead + 7; versions > limit || changes > limit {
			t.Fatalf("after %d writes: %d versions, %d changes", i, versions, changes)
		}
	}
	if w.CompactRevision() == 0 {
		t.Error("no revision was compacted")
	}
	if got, want := w.log.bytes, costOf(w); got != want {
		t.Errorf("%d bytes accounted, want %d", got, want)
	}
}

func costOf(w *World) (sum int64) {
	for _, c := range w.log.changes {
		sum += c.cost()
	}
	return sum
}

func TestChurnStaysWithinAge(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	ws := New(Options{Clock: clock, HistoryAge: time.Minute})
	s, w := pods(t, ws, nil), ws.World("")
	mustCreate(t, t.Context(), s, pod("ns", "p"))
	for i := range 600 {
		clock.SetTime(clock.Now().Add(time.Second))
		mustUpdate(t, t.Context(), s, "/pods/ns/p", func(p *example.Pod) { p.Labels = map[string]string{"n": fmt.Sprint(i)} })
		if _, _, changes := retained(w); changes > 61 {
			t.Fatalf("%d changes are kept at one a second and a minute of history", changes)
		}
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	w.forgetOld(clock.Now())
	if bytes, versions, changes := retained(w); bytes != 0 || versions != 1 || changes != 0 {
		t.Errorf("an hour later: %d bytes, %d versions, %d changes", bytes, versions, changes)
	}
	if got := w.CompactRevision(); got != w.Revision() {
		t.Errorf("compacted up to %d of %d", got, w.Revision())
	}
}

// TestDeletedKeysLeaveNothing creates and deletes many different keys.
func TestDeletedKeysLeaveNothing(t *testing.T) {
	ws := New(Options{})
	s, w := pods(t, ws, nil), ws.World("")
	for i := range 500 {
		p := pod("ns", fmt.Sprint(i))
		mustCreate(t, t.Context(), s, p)
		mustDelete(t, t.Context(), s, podKey(p))
	}
	if err := w.Compact(w.Revision()); err != nil {
		t.Fatal(err)
	}
	if _, versions, changes := retained(w); versions != 0 || changes != 0 || w.keys.Len() != 0 || w.log.bytes != 0 {
		t.Errorf("%d versions, %d changes, %d keys, %d bytes are left", versions, changes, w.keys.Len(), w.log.bytes)
	}
}

// TestRunsKeepTheirHistory checks that only the owner of a run's world compacts it.
func TestRunsKeepTheirHistory(t *testing.T) {
	ws := New(Options{HistoryBytes: 1})
	s, ctx := pods(t, ws, nil), WithRun(t.Context(), "run")
	for i := range 100 {
		mustCreate(t, ctx, s, pod("ns", fmt.Sprint(i)))
	}
	if got := ws.World("run").CompactRevision(); got != 0 {
		t.Errorf("compacted up to %d", got)
	}
}
