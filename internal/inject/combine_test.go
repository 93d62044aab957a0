package inject_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

func TestCombine(t *testing.T) {
	of := func(kinds ...fault.Kind) (faults []fault.Fault) {
		for _, k := range kinds {
			faults = append(faults, fault.Fault{Kind: k})
		}
		return faults
	}
	for _, c := range []struct {
		hits []fault.Fault
		add  fault.Kind
		want bool
	}{
		{of(fault.KindCrashBefore), fault.KindCrashAfter, false},
		{of(fault.KindCrashBefore), fault.KindCrashBefore, false},
		{of(fault.KindCrashBefore), fault.KindLabel, false},
		{of(fault.KindDeposedWrite), fault.KindLostAnswer, false},
		{of(fault.KindError), fault.KindTimeout, false},         // the first one rejects the request
		{of(fault.KindError), fault.KindRecreate, false},        // the request changes no object
		{of(fault.KindOutage), fault.KindError, false},          // the outage rejects it
		{of(fault.KindLostAnswer), fault.KindCrashAfter, false}, // the crash alone does the same
		{of(fault.KindCrashAfter), fault.KindLateAnswer, false},
		{of(fault.KindLag), fault.KindLag, false},
		{of(fault.KindCrashAfter), fault.KindEdit, true},
		{of(fault.KindLostAnswer), fault.KindDelete, true},
		{of(fault.KindConflict), fault.KindError, true},
		{of(fault.KindConflict), fault.KindCrashAfter, true},
		{of(fault.KindPause), fault.KindCrashBefore, true},
		{of(fault.KindLateRequest), fault.KindCrashBefore, true},
		{of(fault.KindLag), fault.KindDisconnect, true},
		{of(fault.KindError), fault.KindLostAnswer, true}, // the client does not learn that it was rejected
	} {
		if got := inject.Combine(c.hits, fault.Fault{Kind: c.add}); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.hits, c.add, got, c.want)
		}
	}
}
