package reconcile

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestInTime checks that a write may be sent up to maxAge after its decision.
func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		if err := m.InTime(time.Now()); !errors.Is(err, ErrStale) {
			t.Errorf("without a decision: error %v", err)
		}
		m.Decided(time.Now())
		time.Sleep(maxAge)
		if err := m.InTime(time.Now()); err != nil {
			t.Errorf("after %s: %v", maxAge, err)
		}
		time.Sleep(time.Millisecond)
		if err := m.InTime(time.Now()); !errors.Is(err, ErrStale) {
			t.Errorf("after more than %s: error %v", maxAge, err)
		}
		m.Decided(time.Now())
		if err := m.InTime(time.Now()); err != nil {
			t.Errorf("decided again: %v", err)
		}
	})
}
