package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
)

// TestUsuallySame: some pairs of faults are expected to have the same effect before a search has compared them, until it sees a difference at a place
// with the same actor, verb and resource. For one of several replicas they are not.
func TestUsuallySame(t *testing.T) {
	place := fault.Fault{Actor: "c", Verb: "create", Resource: "pods", Nth: 1}
	with := func(place fault.Fault, k fault.Kind, hold fault.Fault) fault.Fault {
		place.Kind, place.Writes, place.For, place.Until = k, hold.Writes, hold.For, hold.Until
		return place
	}
	none, one, two, short, long := fault.Fault{}, fault.Fault{Writes: 1}, fault.Fault{Writes: 2}, fault.Fault{For: time.Second}, fault.Fault{For: time.Minute}
	for _, c := range []struct {
		f, tried fault.Fault // their holds
		kind     fault.Kind
		of       fault.Kind // the kind of the tried one
		want     bool
	}{
		{one, none, fault.KindRelist, fault.KindRelist, true},
		{none, two, fault.KindDeposedWrite, fault.KindDeposedWrite, true},
		{two, one, fault.KindLateAnswer, fault.KindLateAnswer, false}, // isRedundant knows better
		{long, none, fault.KindRelist, fault.KindRelist, false},
		{one, none, fault.KindLag, fault.KindLag, false},
		{none, fault.Fault{Until: "pods"}, fault.KindRelist, fault.KindRelist, false},
		{long, short, fault.KindPause, fault.KindPause, true},
		{none, none, fault.KindDeny, fault.KindQuota, true},
		{none, none, fault.KindQuota, fault.KindDeny, true},
		{none, none, fault.KindDeny, fault.KindError, false},
	} {
		g := newGuide(nil, 0)
		f, tried := with(place, c.kind, c.f), with(place, c.of, c.tried)
		isExpected := func(f, tried fault.Fault) bool { return g.isExpected(f, slices.Values([]fault.Fault{tried})) }
		if got := isExpected(f, tried); got != c.want {
			t.Errorf("%s after %s: its signature is expected: %v", f, tried, got)
		}
		replica := place
		replica.Actor = "c/0"
		if isExpected(with(replica, c.kind, c.f), with(replica, c.of, c.tried)) {
			t.Errorf("%s after %s, of a replica: its signature is expected", f, tried)
		}
		second := place
		second.Nth = 2
		if isExpected(with(second, c.kind, c.f), tried) {
			t.Errorf("%s after %s, at another place: its signature is expected", f, tried)
		}
		if g.count(second, withoutPlace(f), withoutPlace(tried), false); isExpected(f, tried) {
			t.Errorf("%s after %s: its signature is expected, but they differed elsewhere", f, tried)
		}
	}
}
