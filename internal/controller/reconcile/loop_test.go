package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
)

type testKey string

// Ref implements Key.
func (k testKey) Ref() klog.ObjectRef { return klog.KRef("", string(k)) }

// TestWakeAfterError checks that what is due at a time is done then, although each sync fails: the backoff alone would be a minute by then.
func TestWakeAfterError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		begin, due := time.Now(), 100*time.Second
		var syncs []time.Duration
		l := &Loop[testKey]{Kind: "Test", Queue: NewQueue[testKey]("test", nil), Workers: 1}
		l.Sync = func(context.Context, testKey) (time.Duration, error) {
			now := time.Since(begin)
			syncs = append(syncs, now)
			return max(0, due-now), errors.New("a quota denies a create")
		}
		l.Queue.Add("a")
		err := l.Run(ctx, func(context.Context) (func(), bool) { return func() {}, true })
		if err != nil || !slices.Contains(syncs, due) || len(syncs) > 15 {
			t.Errorf("%v: synced after %v", err, syncs)
		}
	})
}
