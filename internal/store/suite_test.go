package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// The tests in this file are upstream's, which etcd3's store has to pass. Each runs twice: with the
// transformer of etcd3's tests, where every read decodes, and without one, where objects are
// shared.

const testPrefix = "test!"

// suiteStore is the Storage under test with the hooks that upstream's tests require.
type suiteStore struct {
	*objects
	prefix string // of stored bytes
}

func (s *suiteStore) UpdatePrefixTransformer(modifier storagetesting.PrefixTransformerModifier) func() {
	original := s.transformer.(*storagetesting.PrefixTransformer)
	changed := *original
	s.transformer = modifier(&changed)
	return func() { s.transformer = original }
}

func (s *suiteStore) CorruptTransformer() func() {
	original := s.transformer
	s.transformer = flippedBits{original}
	return func() { s.transformer = original }
}

type flippedBits struct{ value.Transformer }

func (flippedBits) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, true, errors.New("bits flipped")
}

// compact compacts like etcd3's, which first writes a key.
func (s *suiteStore) compact(_ context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	rv, err := s.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	w := s.worlds.World("")
	w.RawPut("compact_rev_key", []byte(resourceVersion), anyRevision)
	if err := w.Compact(int64(rv)); err != nil {
		t.Fatal(err)
	}
}

func (s *suiteStore) increaseRV(_ context.Context, t *testing.T) int64 {
	t.Helper()
	rev, ok := s.worlds.World("").RawPut("increaseRV", []byte("ok"), anyRevision)
	if !ok {
		t.Fatal("raw put was rejected")
	}
	return rev
}

// validate checks that the stored bytes contain no resourceVersion and no selfLink.
func (s *suiteStore) validate(_ context.Context, t *testing.T, key string) {
	t.Helper()
	stored, _, _, _, ok := s.worlds.World("").RawGet(key)
	if !ok {
		t.Fatalf("the key %s does not exist", key)
	}
	obj, err := runtime.Decode(s.codec, stored[len(s.prefix):])
	if err != nil {
		t.Fatal(err)
	}
	if pod := obj.(*example.Pod); pod.ResourceVersion != "" || pod.GetSelfLink() != "" {
		t.Errorf("stored with resourceVersion %q and selfLink %q", pod.ResourceVersion, pod.GetSelfLink())
	}
}

// reads checks how many objects the transformer decoded. etcd3's tests also count requests to etcd,
// which do not exist here.
func (s *suiteStore) reads(t *testing.T, _, processed uint64) {
	t.Helper()
	counter, ok := s.transformer.(*storagetesting.PrefixTransformer)
	if !ok {
		return
	}
	if reads := counter.GetReadsAndReset(); reads != processed {
		t.Errorf("%d objects were read, expected %d", reads, processed)
	}
}

func transformed(t *testing.T, o Options) *suiteStore {
	ws := running(t, New(o))
	return &suiteStore{pods(t, ws, storagetesting.NewPrefixTransformer([]byte(testPrefix), false)), testPrefix}
}

func plain(t *testing.T, o Options) *suiteStore {
	return &suiteStore{pods(t, running(t, New(o)), nil), ""}
}

// both runs a test of upstream with both kinds of Storage.
func both(t *testing.T, run func(ctx context.Context, t *testing.T, s *suiteStore)) {
	t.Run("transformed", func(t *testing.T) {
		t.Parallel()
		within(t, transformed(t, Options{}), run)
	})
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		within(t, plain(t, Options{}), run)
	})
}

// within ends the watches that upstream's tests leave open.
func within(t *testing.T, s *suiteStore, run func(ctx context.Context, t *testing.T, s *suiteStore)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		w := s.worlds.World("")
		w.mu.RLock()
		left := w.watchers.all()
		w.mu.RUnlock()
		cancel()
		for _, watcher := range left {
			stop(watcher)
		}
	})
	run(ctx, t, s)
}

// oneByOne is both for tests that change feature gates, which are global to the process.
func oneByOne(t *testing.T, run func(context.Context, *testing.T, storage.Interface)) {
	t.Run("transformed", func(t *testing.T) {
		within(t, transformed(t, Options{}), func(ctx context.Context, t *testing.T, s *suiteStore) { run(ctx, t, s) })
	})
	t.Run("plain", func(t *testing.T) {
		within(t, plain(t, Options{}), func(ctx context.Context, t *testing.T, s *suiteStore) { run(ctx, t, s) })
	})
}

// onBoth is a test of upstream that needs only the Storage.
func onBoth(t *testing.T, run func(context.Context, *testing.T, storage.Interface)) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) { run(ctx, t, s) })
}

func TestSuiteStore(t *testing.T) {
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
		"KeySchema":                                 storagetesting.RunTestKeySchema,
		"NamespaceScopedList":                       storagetesting.RunTestNamespaceScopedList,
		"GuaranteedUpdateWithTTL":                   storagetesting.RunTestGuaranteedUpdateWithTTL,
		"GuaranteedUpdateWithConflict":              storagetesting.RunTestGuaranteedUpdateWithConflict,
		"GuaranteedUpdateWithSuggestionAndConflict": storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict,
	} {
		t.Run(name, func(t *testing.T) { onBoth(t, run) })
	}
}

func TestSuiteWatch(t *testing.T) {
	for name, run := range map[string]func(context.Context, *testing.T, storage.Interface){
		"Watch":                                  storagetesting.RunTestWatch,
		"ClusterScopedWatch":                     storagetesting.RunTestClusterScopedWatch,
		"NamespaceScopedWatch":                   storagetesting.RunTestNamespaceScopedWatch,
		"DeleteTriggerWatch":                     storagetesting.RunTestDeleteTriggerWatch,
		"WatchFromNonZero":                       storagetesting.RunTestWatchFromNonZero,
		"DelayedWatchDelivery":                   storagetesting.RunTestDelayedWatchDelivery,
		"WatchContextCancel":                     storagetesting.RunTestWatchContextCancel,
		"WatcherTimeout":                         storagetesting.RunTestWatcherTimeout,
		"WatchDeleteEventObjectHaveLatestRV":     storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV,
		"WatchInitializationSignal":              storagetesting.RunTestWatchInitializationSignal,
		"SendInitialEventsBackwardCompatibility": storagetesting.RunSendInitialEventsBackwardCompatibility,
	} {
		t.Run(name, func(t *testing.T) { onBoth(t, run) })
	}
}

func TestSuiteWatchList(t *testing.T) {
	for name, run := range map[string]func(context.Context, *testing.T, storage.Interface){
		"WatchSemantics":                     storagetesting.RunWatchSemantics,
		"WatchSemanticInitialEventsExtended": storagetesting.RunWatchSemanticInitialEventsExtended,
		"WatchListMatchSingle":               storagetesting.RunWatchListMatchSingle,
	} {
		t.Run(name, func(t *testing.T) { oneByOne(t, run) })
	}
}

func TestSuiteCreate(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestCreate(ctx, t, s, s.validate)
	})
}

func TestSuiteList(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		// Only the watch cache's variant uses the recorder.
		storagetesting.RunTestList(ctx, t, s, s.compact, false, nil)
	})
}

func TestSuiteConsistentList(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestConsistentList(ctx, t, s, s.increaseRV, false, true, false)
	})
}

func TestSuiteGetListNonRecursive(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, s.increaseRV, s)
	})
}

func TestSuiteListContinuation(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestListContinuation(ctx, t, s, s.reads)
	})
}

func TestSuiteListPaginationRareObject(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, s, s.reads)
	})
}

func TestSuiteListContinuationWithFilter(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, s, s.reads)
	})
}

func TestSuiteListInconsistentContinuation(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, s, s.compact)
	})
}

func TestSuiteCompactRevision(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestCompactRevision(ctx, t, s, s.increaseRV, s.compact)
	})
}

func TestSuiteStats(t *testing.T) {
	for _, sizes := range []bool{true, false} {
		both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
			transformer := s.transformer
			if transformer == nil {
				transformer = storagetesting.NewPrefixTransformer(nil, false)
			}
			if sizes {
				keys := func(context.Context) ([]string, error) { return nil, nil }
				if err := s.EnableResourceSizeEstimation(keys); err != nil {
					t.Fatal(err)
				}
			}
			storagetesting.RunTestStats(ctx, t, s, s.codec, transformer, sizes)
		})
	}
}

func TestSuiteWatchFromZero(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestWatchFromZero(ctx, t, s, s.compact)
	})
}

func TestSuiteProgressNotify(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunOptionalTestProgressNotify(ctx, t, s, s.increaseRV)
	})
}

// TestSuiteWatchDispatchBookmarkEvents checks that allowWatchBookmarks alone causes no bookmarks,
// however often the store sends progress.
func TestSuiteWatchDispatchBookmarkEvents(t *testing.T) {
	t.Parallel()
	often := Options{ProgressInterval: 100 * time.Millisecond}
	within(t, plain(t, often), func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, false)
	})
}

// The tests below change the transformer while they run, so they run only with one.

func TestSuiteGuaranteedUpdate(t *testing.T) {
	within(t, transformed(t, Options{}), func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestGuaranteedUpdate(ctx, t, s, s.validate)
	})
}

func TestSuiteTransformer(t *testing.T) {
	for name, run := range map[string]func(context.Context, *testing.T, storagetesting.InterfaceWithPrefixTransformer){
		"GuaranteedUpdateChecksStoredData": storagetesting.RunTestGuaranteedUpdateChecksStoredData,
		"TransformationFailure":            storagetesting.RunTestTransformationFailure,
		"ListResourceVersionMatch":         storagetesting.RunTestListResourceVersionMatch,
		"WatchError":                       storagetesting.RunTestWatchError,
		"WatchErrorIsBlockingFurther":      storagetesting.RunWatchErrorIsBlockingFurtherEvents,
	} {
		t.Run(name, func(t *testing.T) {
			within(t, transformed(t, Options{}), func(ctx context.Context, t *testing.T, s *suiteStore) { run(ctx, t, s) })
		})
	}
}

func TestSuiteWatchWithUnsafeDelete(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, true)
	within(t, transformed(t, Options{}), func(ctx context.Context, t *testing.T, s *suiteStore) {
		storagetesting.RunTestWatchWithUnsafeDelete(ctx, t, s)
	})
}
