package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

// The tests in this file run upstream's watch cache over the store.

// cached is a watch cache and the Storage below it.
type cached struct {
	*cacher.CacheDelegator
	below *objects
}

type cacheOptions struct {
	clock     clock.WithTicker
	byCluster bool // whether keys have no namespace
}

func withCache(t testing.TB, o cacheOptions) *cached {
	t.Helper()
	EnableConsistentReads()
	below := pods(t, running(t, New(Options{ShareParts: true})), nil) // as in a cluster
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             below,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       schema.GroupResource{Resource: "pods"},
		EventsHistoryWindow: cacher.DefaultEventFreshDuration,
		ResourcePrefix:      "/pods/",
		KeyFunc: func(obj runtime.Object) (string, error) {
			if o.byCluster {
				return storage.NoNamespaceKeyFunc("/pods/", obj)
			}
			return storage.NamespaceKeyFunc("/pods/", obj)
		},
		GetAttrsFunc: podAttrs,
		NewFunc:      newPod,
		NewListFunc:  newPodList,
		IndexerFuncs: map[string]storage.IndexerFunc{
			"spec.nodeName": func(obj runtime.Object) string { return obj.(*example.Pod).Spec.NodeName },
		},
		Indexers: &cache.Indexers{
			"f:spec.nodeName":      func(obj any) ([]string, error) { return []string{obj.(*example.Pod).Spec.NodeName}, nil },
			"f:metadata.namespace": func(obj any) ([]string, error) { return []string{obj.(*example.Pod).Namespace}, nil },
		},
		Codec: codecs.LegacyCodec(examplev1.SchemeGroupVersion),
		Clock: o.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	delegator := cacher.NewCacheDelegator(c, below)
	t.Cleanup(func() {
		delegator.Stop()
		c.Stop()
	})
	return &cached{delegator, below}
}

func podAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	p := obj.(*example.Pod)
	return p.Labels, fields.Set{
		"metadata.name":      p.Name,
		"metadata.namespace": p.Namespace,
		"spec.nodeName":      p.Spec.NodeName,
		"spec.restartPolicy": string(p.Spec.RestartPolicy),
		"status.phase":       string(p.Status.Phase),
	}, nil
}

func (c *cached) increaseRV(context.Context, *testing.T) int64 {
	rev, _ := c.below.worlds.World("").RawPut("increaseRV", []byte("ok"), anyRevision)
	return rev
}

// seen is a cache whose Create waits until the cache contains the object, as upstream's tests of
// watch semantics require.
type seen struct{ *cached }

func (s seen) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := s.cached.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	rv := out.(*example.Pod).ResourceVersion
	return s.Get(ctx, key, storage.GetOptions{ResourceVersion: rv}, &example.Pod{})
}

func TestCacheSuite(t *testing.T) {
	for name, run := range map[string]func(context.Context, *testing.T, storage.Interface){
		"CreateWithTTL":                             storagetesting.RunTestCreateWithTTL,
		"CreateWithKeyExist":                        storagetesting.RunTestCreateWithKeyExist,
		"Get":                                       storagetesting.RunTestGet,
		"UnconditionalDelete":                       storagetesting.RunTestUnconditionalDelete,
		"ConditionalDelete":                         storagetesting.RunTestConditionalDelete,
		"DeleteWithSuggestion":                      storagetesting.RunTestDeleteWithSuggestion,
		"DeleteWithSuggestionAndConflict":           storagetesting.RunTestDeleteWithSuggestionAndConflict,
		"DeleteWithConflict":                        storagetesting.RunTestDeleteWithConflict,
		"DeleteWithSuggestionOfDeletedObject":       storagetesting.RunTestDeleteWithSuggestionOfDeletedObject,
		"ValidateDeletionWithSuggestion":            storagetesting.RunTestValidateDeletionWithSuggestion,
		"ValidateDeletionWithOnlySuggestionValid":   storagetesting.RunTestValidateDeletionWithOnlySuggestionValid,
		"PreconditionalDeleteWithSuggestion":        storagetesting.RunTestPreconditionalDeleteWithSuggestion,
		"PreconditionalDeleteWithSuggestionPass":    storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass,
		"ListPaging":                                storagetesting.RunTestListPaging,
		"GetListRecursivePrefix":                    storagetesting.RunTestGetListRecursivePrefix,
		"NamespaceScopedList":                       storagetesting.RunTestNamespaceScopedList,
		"GuaranteedUpdateWithTTL":                   storagetesting.RunTestGuaranteedUpdateWithTTL,
		"GuaranteedUpdateWithConflict":              storagetesting.RunTestGuaranteedUpdateWithConflict,
		"GuaranteedUpdateWithSuggestionAndConflict": storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict,
		"Watch":                                    storagetesting.RunTestWatch,
		"NamespaceScopedWatch":                     storagetesting.RunTestNamespaceScopedWatch,
		"DeleteTriggerWatch":                       storagetesting.RunTestDeleteTriggerWatch,
		"WatchFromNonZero":                         storagetesting.RunTestWatchFromNonZero,
		"WatchDeleteEventObjectHaveLatestRV":       storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV,
		"WatchInitializationSignal":                storagetesting.RunTestWatchInitializationSignal,
		"WatchBookmarksWithCorrectResourceVersion": storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion,
		"SendInitialEventsBackwardCompatibility":   storagetesting.RunSendInitialEventsBackwardCompatibility,
	} {
		t.Run(name, func(t *testing.T) { run(t.Context(), t, withCache(t, cacheOptions{})) })
	}
}

func TestCacheSuiteMore(t *testing.T) {
	t.Run("ClusterScopedWatch", func(t *testing.T) {
		storagetesting.RunTestClusterScopedWatch(t.Context(), t, withCache(t, cacheOptions{byCluster: true}))
	})
	t.Run("ConsistentList", func(t *testing.T) {
		c := withCache(t, cacheOptions{})
		storagetesting.RunTestConsistentList(t.Context(), t, c, c.increaseRV, true, true, true)
	})
	t.Run("GetListNonRecursive", func(t *testing.T) {
		c := withCache(t, cacheOptions{})
		storagetesting.RunTestGetListNonRecursive(t.Context(), t, c.increaseRV, c)
	})
	t.Run("Create", func(t *testing.T) {
		c := withCache(t, cacheOptions{})
		storagetesting.RunTestCreate(t.Context(), t, c, (&suiteStore{objects: c.below}).validate)
	})
	t.Run("KeySchema", func(t *testing.T) {
		storagetesting.RunTestKeySchema(t.Context(), t, withCache(t, cacheOptions{}))
	})
	t.Run("ListContinuation", func(t *testing.T) {
		storagetesting.RunTestListContinuation(t.Context(), t, withCache(t, cacheOptions{}), nil)
	})
	t.Run("ListContinuationWithFilter", func(t *testing.T) {
		storagetesting.RunTestListContinuationWithFilter(t.Context(), t, withCache(t, cacheOptions{}), nil)
	})
	t.Run("ListPaginationRareObject", func(t *testing.T) {
		storagetesting.RunTestListPaginationRareObject(t.Context(), t, withCache(t, cacheOptions{}), nil)
	})
	t.Run("Stats", func(t *testing.T) {
		sized := utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate)
		c := withCache(t, cacheOptions{})
		storagetesting.RunTestStats(t.Context(), t, c, c.below.codec, storagetesting.NewPrefixTransformer(nil, false), sized)
	})
	t.Run("WatcherTimeout", func(t *testing.T) {
		storagetesting.RunTestWatcherTimeout(t.Context(), t, withCache(t, cacheOptions{}))
	})
	t.Run("WatchDispatchBookmarkEvents", func(t *testing.T) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(t.Context(), t, withCache(t, cacheOptions{}), true)
	})
	t.Run("WatchSemantics", func(t *testing.T) {
		storagetesting.RunWatchSemantics(t.Context(), t, seen{withCache(t, cacheOptions{})})
	})
	t.Run("WatchSemanticInitialEventsExtended", func(t *testing.T) {
		storagetesting.RunWatchSemanticInitialEventsExtended(t.Context(), t, seen{withCache(t, cacheOptions{})})
	})
	t.Run("WatchListMatchSingle", func(t *testing.T) {
		storagetesting.RunWatchListMatchSingle(t.Context(), t, seen{withCache(t, cacheOptions{})})
	})
}

// TestConsistentReadsNeedNoTimer uses a cache with a stopped clock: a consistent read that waited
// for the cache's progress timer would never return.
func TestConsistentReadsNeedNoTimer(t *testing.T) {
	still := testingclock.NewFakeClock(time.Unix(0, 0))
	c := withCache(t, cacheOptions{clock: still})
	defer still.Step(time.Hour) // wakes the goroutines that the cache leaves asleep
	for i := range 100 {
		if i%3 == 0 {
			mustCreate(t, t.Context(), c, pod("ns", fmt.Sprint(i)))
		}
		rev := c.increaseRV(t.Context(), t) // a write to another resource
		list := mustList(t, t.Context(), c, storage.ListOptions{Predicate: storage.Everything})
		if list.ResourceVersion != fmt.Sprint(rev) || len(list.Items) != i/3+1 {
			t.Fatalf("list %d: revision %s with %d items", i, list.ResourceVersion, len(list.Items))
		}
	}
}

// TestCacheLeavesSharedObjectsAlone checks that the cache may receive the shared objects
// themselves: after many operations through the cache, with readers that encode the objects, every
// cached object still equals its bytes. The race detector finds writes that are undone.
func TestCacheLeavesSharedObjectsAlone(t *testing.T) {
	c := withCache(t, cacheOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for _, selector := range []string{"", "color=red", ""} {
		readers.Go(func() { encodeEvents(t, ctx, c, selector) })
	}
	for i := range 4 {
		writers.Go(func() { churn(t, c, i) })
	}
	writers.Wait()
	c.awaitDispatch(t)
	cancel()
	readers.Wait()
	checkShared(t, c.below)
}

// awaitDispatch waits until the cache has sent all events so far to its watches. Upstream's Cacher.Stop waits forever if it begins while the queue of the
// cache is full (100 events): the goroutine that reads the queue ends first, and the reflector, for which Stop waits, cannot write to it.
func (c *cached) awaitDispatch(t *testing.T) {
	t.Helper()
	for n := 0; !c.dispatches(t, fmt.Sprint("last-", n)); n++ { // the cache ends a watch whose reader is slow
	}
}

// dispatches creates an object, and reports whether a watch of the cache has received it.
func (c *cached) dispatches(t *testing.T, name string) bool {
	t.Helper()
	ctx := t.Context()
	list := &example.PodList{}
	if err := c.GetList(ctx, "/pods/", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list); err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(ctx, "/pods/", storage.ListOptions{ResourceVersion: list.ResourceVersion, Predicate: storage.Everything, Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	last := pod("ns", name)
	if err := c.Create(ctx, podKey(last), last, &example.Pod{}, 0); err != nil {
		t.Fatal(err)
	}
	for e := range w.ResultChan() {
		object := e.Object
		if shared, ok := object.(runtime.CacheableObject); ok { // an event for several watches
			object = shared.GetObject()
		}
		if p, ok := object.(*example.Pod); ok && p.Name == name {
			return true
		}
	}
	return false
}

// churn creates, updates and deletes through the cache, and reads from it.
func churn(t *testing.T, c *cached, worker int) {
	ctx := t.Context()
	for i := range 60 {
		p := pod("ns", fmt.Sprintf("w%d-%d", worker, i%5))
		key := podKey(p)
		out := &example.Pod{}
		err := c.GuaranteedUpdate(ctx, key, out, true, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			in := obj.(*example.Pod)
			in.Name, in.Namespace = p.Name, p.Namespace
			if in.Labels == nil {
				in.Labels = map[string]string{}
			}
			in.Labels["color"] = []string{"red", "green"}[i/5%2]
			in.Labels["n"] = fmt.Sprint(i)
			return in, nil
		}), nil)
		if err != nil {
			t.Error(err)
			return
		}
		out.Labels["mine"] = "to change"
		if i%7 == 6 {
			if err := c.Delete(ctx, key, out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
				t.Error(err)
				return
			}
			out.Labels["mine"] = "to change"
		}
		list := &example.PodList{}
		opts := storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true}
		if err := c.GetList(ctx, "/pods/", opts, list); err != nil {
			t.Error(err)
			return
		}
		for i := range list.Items {
			encode(t, &list.Items[i])
		}
	}
}

// encodeEvents watches through the cache and encodes each event, as the server does.
func encodeEvents(t *testing.T, ctx context.Context, s storage.Interface, selector string) {
	label, err := labels.Parse(selector)
	if err != nil {
		t.Error(err)
		return
	}
	pred := storage.SelectionPredicate{Label: label, Field: fields.Everything(), GetAttrs: podAttrs, AllowWatchBookmarks: true}
	w, err := s.Watch(ctx, "/pods/", storage.ListOptions{ResourceVersion: "0", Predicate: pred, Recursive: true})
	if err != nil {
		t.Error(err)
		return
	}
	defer w.Stop()
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return
			}
			if event.Type != watch.Error {
				encode(t, event.Object)
			}
		case <-ctx.Done():
			return
		}
	}
}

func encode(t *testing.T, obj runtime.Object) {
	t.Helper()
	if err := codecs.LegacyCodec(examplev1.SchemeGroupVersion).Encode(obj, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}

// checkShared compares each object that readers share with its bytes.
func checkShared(t testing.TB, s *objects) {
	t.Helper()
	compared, modified := s.worlds.Modified()
	if compared == 0 {
		t.Error("nothing was compared")
	}
	for _, m := range modified {
		t.Errorf("a reader has modified %s", m)
	}
}
