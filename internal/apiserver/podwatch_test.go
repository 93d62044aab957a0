package apiserver

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/util/watchlist"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/apis/core"
)

// TestPodWatchStops: a watch whose reader stops without reading ends, also while it waits for the reader (synctest reports a goroutine that remains).
func TestPodWatchStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := watch.NewFakeWithChanSize(4, false)
		w := &podWatch{stored: stored, result: make(chan watch.Event, 1), stop: make(chan struct{})}
		go w.run()
		for range 3 {
			stored.Add(&core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}})
		}
		synctest.Wait() // it waits with the second event
		w.Stop()
		w.Stop()
		synctest.Wait()
		var got []watch.Event
		for e := range w.ResultChan() {
			got = append(got, e)
		}
		if len(got) != 1 || got[0].Type != watch.Added || got[0].Object.(*corev1.Pod).ResourceVersion != "7" {
			t.Errorf("events %v", got)
		}
	})
}

// TestPodWatchErrors: an error of the store reaches the reader unchanged, and the end of the store's watch ends that of the reader.
func TestPodWatchErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := watch.NewFakeWithChanSize(1, false)
		w := &podWatch{stored: stored, result: make(chan watch.Event), stop: make(chan struct{})}
		go w.run()
		expired := &metav1.Status{Reason: metav1.StatusReasonExpired}
		stored.Error(expired)
		if e := <-w.ResultChan(); e.Type != watch.Error || e.Object != expired {
			t.Errorf("event %v", e)
		}
		stored.Stop()
		if e, ok := <-w.ResultChan(); ok {
			t.Errorf("event %v after the end", e)
		}
	})
}

// TestPodSourceWithoutWatchList: without the feature, a watch of the store does not begin with the existing pods, so a reader has to list them.
func TestPodSourceWithoutWatchList(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.WatchList, enabled)
		if got := watchlist.DoesClientNotSupportWatchListSemantics(podSource{}); got == enabled {
			t.Errorf("feature %t: lists: %t", enabled, got)
		}
	}
}
