package inject_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

func of(kinds ...fault.Kind) (faults []fault.Fault) {
	for _, k := range kinds {
		faults = append(faults, fault.Of(k))
	}
	return faults
}

// TestEveryKind: each kind of fault changes exactly one of the decisions.
func TestEveryKind(t *testing.T) {
	for _, k := range append(fault.Kinds(fault.Adversarial), fault.KindCrash) {
		hits, n := of(k), 0
		if _, late := inject.Delay(hits); late {
			n++
		}
		before := inject.BeforeServing(hits)
		if before.Action != inject.Serve {
			n++
			if before.Text() != string(k) || len(before.Rest) != 0 {
				t.Errorf("%s: %+v", k, before)
			}
		}
		if before.Action == inject.Serve && !cmp.Equal(inject.AfterServing(hits, before, 200), inject.Outcome{}) {
			n++
		}
		if d := inject.OnEvent(hits); d.Hold != nil || d.End || d.Copies != 1 {
			n++
		}
		if n != 1 {
			t.Errorf("%s changes %d decisions", k, n)
		}
	}
}

// TestBeforeServing: the first fault in the plan that keeps a request from the server determines the
// decision, and a pause leaves the others.
func TestBeforeServing(t *testing.T) {
	d := inject.BeforeServing(of(fault.KindLostAnswer, fault.KindPause, fault.KindConflict, fault.KindError))
	if want := of(fault.KindLostAnswer, fault.KindConflict, fault.KindError); d.Action != inject.Pause || !cmp.Equal(d.Rest, want) {
		t.Errorf("%+v", d)
	}
	if d = inject.BeforeServing(d.Rest); d.Action != inject.Contend || len(d.Rest) != 2 {
		t.Errorf("after the pause: %+v", d)
	}
	if d = inject.BeforeServing(d.Rest); d.Action != inject.Reject || d.Rejection.Code != 500 {
		t.Errorf("after another user's write: %+v", d)
	}
	d = inject.BeforeServing([]fault.Fault{{Kind: fault.KindThrottle, For: 1}})
	if want := (inject.Rejection{Code: 429, RetryAfter: time.Second}); d.Rejection != want {
		t.Errorf("throttle: %+v", d)
	}
}

// TestBlocked: an outage rejects every request, a partition loses the writes, and only an outage ends streams.
func TestBlocked(t *testing.T) {
	outage, partition := fault.Of(fault.KindOutage), fault.Of(fault.KindPartition)
	for _, f := range []fault.Fault{outage, partition} {
		if d := inject.BeforeServing([]fault.Fault{fault.Of(fault.KindLostAnswer), f}); d.Action != inject.Block || len(d.Rest) != 1 || inject.EndsStreams(f) != (f == outage) {
			t.Errorf("%s: %+v", f, d)
		}
	}
	for _, write := range []bool{false, true} {
		if d, ok := inject.Blocked(outage, write); !ok || d.Action != inject.Reject || d.Rejection != (inject.Rejection{Code: 503}) || d.Text() != "outage" {
			t.Errorf("outage, write %t: %+v, %t", write, d, ok)
		}
		if d, ok := inject.Blocked(partition, write); ok != write || write && d.Action != inject.Drop {
			t.Errorf("partition, write %t: %+v, %t", write, d, ok)
		}
		if _, ok := inject.Blocked(fault.Of(fault.KindPause), write); ok {
			t.Error("a pause blocks")
		}
	}
}

// TestAfterServing: interference needs a write that had an effect; a second instance does not. Of several faults that
// start an instance the first one does.
func TestAfterServing(t *testing.T) {
	hits := of(fault.KindError, fault.KindDelete, fault.KindCrashAfter, fault.KindOverlap, fault.KindCrashAfter)
	o := inject.AfterServing(hits, inject.BeforeServing(hits), 500)
	want := inject.Outcome{Reply: inject.ReplyLost, Discarded: true, Then: []inject.Consequence{
		{Effect: inject.Terminate, Fault: hits[2]},
	}}
	if d := cmp.Diff(want, o); d != "" {
		t.Error(d)
	}
	o = inject.AfterServing(hits[3:], inject.Decision{}, 201)
	want = inject.Outcome{Then: []inject.Consequence{{Effect: inject.StartSecond, Fault: hits[3]}}}
	if d := cmp.Diff(want, o); d != "" {
		t.Errorf("a client that is not terminated gets its answer: %s", d)
	}
	// An error takes the place of the answer to a write that succeeded, unless the answer is lost as well.
	hits = of(fault.KindErrorAfter, fault.KindDelete)
	o = inject.AfterServing(hits, inject.Decision{}, 200)
	want = inject.Outcome{Fault: "error-after", Reply: inject.ReplyError, Instead: &inject.Rejection{Code: 500, Unknown: true}, Then: []inject.Consequence{{Effect: inject.Interfere, Fault: hits[1]}}}
	if d := cmp.Diff(want, o); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(inject.Outcome{}, inject.AfterServing(hits, inject.Decision{}, 409)); d != "" {
		t.Errorf("a write that was rejected: %s", d)
	}
	dropped := inject.AfterServing(nil, inject.Decision{Action: inject.Drop}, 0)
	if d := cmp.Diff(inject.Outcome{Reply: inject.ReplyLost}, dropped); d != "" {
		t.Error(d)
	}
}

// TestOnEvent: a lost event stays lost if another fault repeats it, and a relist keeps its hold.
func TestOnEvent(t *testing.T) {
	lost := inject.OnEvent(of(fault.KindRepeatEvent, fault.KindLoseEvent))
	if lost.Copies != 0 || lost.Reply() != inject.ReplyLost {
		t.Errorf("%+v", lost)
	}
	bookmark := inject.OnEvent(of(fault.KindDropBookmark))
	if bookmark.Copies != 0 {
		t.Errorf("%+v", bookmark)
	}
	relist := inject.OnEvent(of(fault.KindRelist))
	if relist.Hold == nil || !relist.End || !relist.Expire {
		t.Errorf("%+v", relist)
	}
}

// TestHold: only the condition of its fault, or End, ends a hold.
func TestHold(t *testing.T) {
	at := func(elapsed time.Duration, writes int, revision int64) inject.Progress {
		return inject.Progress{Elapsed: elapsed, Writes: writes, Delivered: func(resource string) int64 {
			if resource == "pods" {
				return revision
			}
			return 0
		}}
	}
	for text, c := range map[string]struct{ early, late inject.Progress }{
		"lag for=3s":          {at(4*time.Second, 99, 99), at(5*time.Second, 0, 0)},
		"lag writes=2":        {at(time.Hour, 3, 99), at(0, 4, 0)},
		"lag until=pods":      {at(time.Hour, 99, 7), at(0, 0, 8)},
		"lag until=pods@42":   {at(time.Hour, 99, 41), at(0, 0, 42)},
		"lag until=pods@3":    {at(time.Hour, 99, 2), at(0, 0, 3)},
		"lag until=jobs.none": {at(time.Hour, 99, 99), at(0, 0, 99)},
	} {
		f, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		h := inject.NewHold(f, at(2*time.Second, 2, 1), 7)
		if h.Over(c.early) {
			t.Errorf("%s: ends too early", text)
		}
		if f.Until == "jobs.none" {
			h.End()
		}
		if !h.Over(c.late) || !h.Over(c.early) || !h.Ended() {
			t.Errorf("%s: does not end, or not for ever", text)
		}
	}
	if h := inject.NewHold(fault.Fault{}, at(0, 0, 0), 0); h.Over(at(time.Hour, 99, 99)) {
		t.Error("a hold without a limit ends by itself")
	}
}

// TestExpiries: a watch from a revision is answered 410 once; a list removes the expiry.
func TestExpiries(t *testing.T) {
	var e inject.Expiries
	if e.Request("a", "watch", "pods", "ns", true) {
		t.Error("nothing has expired")
	}
	e.Expire("a", "pods", "ns")
	for _, other := range [][3]string{{"b", "pods", "ns"}, {"a", "jobs.batch", "ns"}, {"a", "pods", ""}} {
		if e.Request(other[0], "watch", other[1], other[2], true) {
			t.Errorf("%v has expired", other)
		}
	}
	if e.Request("a", "watch", "pods", "ns", false) || !e.Request("a", "watch", "pods", "ns", true) || e.Request("a", "watch", "pods", "ns", true) {
		t.Error("want 410 once, for a watch from a revision")
	}
	e.Expire("a", "pods", "ns")
	if e.Request("a", "list", "pods", "ns", false) || e.Request("a", "watch", "pods", "ns", true) {
		t.Error("a list does not make it unnecessary")
	}
}
