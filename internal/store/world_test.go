package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
	testingclock "k8s.io/utils/clock/testing"
)

func TestRawAccess(t *testing.T) {
	w := New(Options{}).World("run")
	put := func(key, value string, if_ int64, rev int64, ok bool) {
		t.Helper()
		if gotRev, gotOK := w.RawPut(key, []byte(value), if_); gotRev != rev || gotOK != ok {
			t.Errorf("put %s if %d: %d %v, expected %d %v", key, if_, gotRev, gotOK, rev, ok)
		}
	}
	put("/a", "1", 0, 2, true)
	put("/a", "2", 0, 2, false)
	put("/a", "2", 7, 2, false)
	put("/a", "2", 2, 3, true)
	put("/b", "", -1, 4, true)
	put("/b/c", "x", 0, 5, true)
	value, mod, created, writes, ok := w.RawGet("/a")
	if string(value) != "2" || mod != 3 || created != 2 || writes != 2 || !ok {
		t.Errorf("get: %q %d %d %d %v", value, mod, created, writes, ok)
	}
	if _, _, _, _, ok := w.RawGet("/b"); !ok {
		t.Error("an empty value reads as a missing key")
	}
	if rev, ok := w.RawDelete("/a", 2); rev != 5 || ok {
		t.Errorf("delete if 2: %d %v", rev, ok)
	}
	if rev, ok := w.RawDelete("/a", 3); rev != 6 || !ok {
		t.Errorf("delete if 3: %d %v", rev, ok)
	}
	if rev, ok := w.RawDelete("/a", anyRevision); rev != 6 || ok {
		t.Errorf("delete of nothing: %d %v", rev, ok)
	}
	put("/a", "new", 0, 7, true)
	if _, mod, created, writes, _ := w.RawGet("/a"); mod != 7 || created != 7 || writes != 1 {
		t.Errorf("created again: %d %d %d", mod, created, writes)
	}
}

func TestRawRange(t *testing.T) {
	w := New(Options{}).World("run")
	for i, key := range []string{"/a", "/b/1", "/b/2", "/b/3", "/c"} {
		w.RawPut(key, []byte(fmt.Sprint(i)), 0) // revisions 2 to 6
	}
	w.RawDelete("/b/2", anyRevision) // 7
	if err := w.Compact(4); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name       string
		key, end   string
		limit, rev int64
		keys       []string
		count      int64
		err        error
	}{
		{name: "one key", key: "/b/1", keys: []string{"/b/1"}, count: 1},
		{name: "no key", key: "/b/"},
		{name: "a directory", key: "/b/", end: "/b0", keys: []string{"/b/1", "/b/3"}, count: 2},
		{name: "a limit", key: "/b/", end: "/b0", limit: 1, keys: []string{"/b/1"}, count: 2},
		{name: "the past", key: "/b/", end: "/b0", rev: 6, keys: []string{"/b/1", "/b/2", "/b/3"}, count: 3},
		{name: "the oldest past", key: "/", end: "0", rev: 4, keys: []string{"/a", "/b/1", "/b/2"}, count: 3},
		{name: "too old", key: "/", end: "0", rev: 3, err: ErrCompacted},
		{name: "the future", key: "/", end: "0", rev: 8, err: ErrFutureRevision},
		{name: "to the end", key: "/b/3", end: "\x00", keys: []string{"/b/3", "/c"}, count: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kvs, count, header, err := w.RawRange(tc.key, tc.end, tc.limit, tc.rev)
			if !errors.Is(err, tc.err) || count != tc.count || header != 7 {
				t.Errorf("count %d, header %d, error %v", count, header, err)
			}
			var keys []string
			for _, kv := range kvs {
				keys = append(keys, kv.Key)
			}
			if diff := cmp.Diff(tc.keys, keys); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCompactErrors(t *testing.T) {
	w := New(Options{}).World("run")
	for i := range 5 {
		w.RawPut("/k", []byte(fmt.Sprint(i)), anyRevision)
	}
	if err := w.Compact(4); err != nil {
		t.Error(err)
	}
	for rev, want := range map[int64]error{3: ErrCompacted, 4: ErrCompacted, 7: ErrFutureRevision} {
		if err := w.Compact(rev); !errors.Is(err, want) {
			t.Errorf("compact %d: %v", rev, err)
		}
	}
	if got := w.CompactRevision(); got != 4 {
		t.Errorf("compacted up to %d", got)
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"/a/": "/a0", "a\xff": "b", "\xff\xff": toTheEnd} {
		if got := prefixEnd(prefix); got != want {
			t.Errorf("%q ends before %q, expected %q", prefix, got, want)
		}
	}
}

// TestExpire steps the world of a run through its objects' times to live.
func TestExpire(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	ws := New(Options{Clock: clock})
	s, ctx := pods(t, ws, nil), WithRun(t.Context(), "run")
	w := ws.World("run")
	create := func(name string, ttl uint64) {
		t.Helper()
		if err := s.Create(ctx, "/pods/ns/"+name, pod("ns", name), nil, ttl); err != nil {
			t.Fatal(err)
		}
	}
	update := func(name string, ttl *uint64) {
		t.Helper()
		err := s.GuaranteedUpdate(ctx, "/pods/ns/"+name, &example.Pod{}, false, nil, func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			obj.(*example.Pod).Generation++
			return obj, ttl, nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	expire := func(after time.Duration, want time.Duration) {
		t.Helper()
		next, pending := w.Expire(time.Unix(1000, 0).Add(after))
		if pending != (want > 0) || pending && !next.Equal(time.Unix(1000, 0).Add(want)) {
			t.Errorf("after %v: next %v %v, expected %v", after, next, pending, want)
		}
	}
	create("for ever", 0)  // 2
	create("short", 10)    // 3
	create("longer", 20)   // 4
	create("prolonged", 5) // 5
	create("kept", 5)      // 6
	create("deleted", 1)   // 7
	longer := uint64(30)
	update("prolonged", &longer) // 8
	update("kept", nil)          // as in etcd3, the object no longer has a TTL
	mustDelete(t, ctx, s, "/pods/ns/deleted")
	mustCreate(t, ctx, s, pod("ns", "deleted")) // 11
	opened := mustWatch(t, ctx, s, everything(11))

	expire(0, 10*time.Second)
	expire(9*time.Second, 10*time.Second)
	expire(10*time.Second, 20*time.Second)
	expire(25*time.Second, 30*time.Second)
	expire(30*time.Second, 0)
	for i, name := range []string{"short", "longer", "prolonged"} {
		if event := nextIs(t, opened, watch.Deleted, int64(12+i)); event.Object.(*example.Pod).Name != name {
			t.Errorf("the %d. expired object was %s", i+1, event.Object.(*example.Pod).Name)
		}
	}
	if left := mustList(t, ctx, s, storage.ListOptions{Predicate: storage.Everything}); len(left.Items) != 3 {
		t.Errorf("the remaining objects are %v", shortly(left.Items))
	}
}

// TestExpiryLeavesRoomForWriters checks that at most a batch of expiries is processed while the
// world's lock is held, and that a write can occur between two batches. An expiry whose object was
// written or deleted meanwhile also counts.
func TestExpiryLeavesRoomForWriters(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	ws := New(Options{Clock: clock})
	s, w := pods(t, ws, nil), ws.World("")
	for i := range 4*expiryBatch + 1 {
		if err := s.Create(t.Context(), fmt.Sprintf("/pods/ns/%04d", i), pod("ns", fmt.Sprintf("%04d", i)), nil, 10); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(time.Millisecond)) // so that they expire in this order
	}
	for i := range expiryBatch {
		mustDelete(t, t.Context(), s, fmt.Sprintf("/pods/ns/%04d", i))
	}
	due := clock.Now().Add(10 * time.Second)
	batch := func(deleted int64, more bool) {
		t.Helper()
		before := w.Revision()
		if _, _, got := w.expireBatch(due); got != more {
			t.Errorf("after a batch, more to come: %v, want %v", got, more)
		}
		if got := w.Revision() - before; got != deleted {
			t.Errorf("a batch deleted %d objects, want %d", got, deleted)
		}
	}
	batch(0, true) // the objects that were already deleted
	batch(expiryBatch, true)
	w.RawPut("/other/key", nil, anyRevision)
	before := w.Revision()
	if next, pending := w.Expire(due); pending {
		t.Errorf("an expiry remains, due at %v", next)
	}
	if got := w.Revision() - before; got != 2*expiryBatch+1 {
		t.Errorf("%d objects expired in the rest, want %d", got, 2*expiryBatch+1)
	}
}

// TestRun checks in virtual time that the background work of the process's world is done when it is
// due and not before.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws := running(t, New(Options{ProgressInterval: 7 * time.Second, HistoryAge: 25 * time.Second}))
		s, began := pods(t, ws, nil), time.Now()
		at := func(seconds int) {
			t.Helper()
			if got := time.Since(began); got != time.Duration(seconds)*time.Second {
				t.Errorf("the event was received after %v, not %d s", got, seconds)
			}
		}
		opts := everything(1)
		opts.ProgressNotify = true
		w := mustWatch(t, t.Context(), s, opts)
		for name, ttl := range map[string]uint64{"a": 10, "b": 0} {
			if err := s.Create(t.Context(), "/pods/ns/"+name, pod("ns", name), nil, ttl); err != nil {
				t.Fatal(err)
			}
			next(t, w)
			at(0)
		}
		nextIs(t, w, watch.Bookmark, 3)
		at(7)
		nextIs(t, w, watch.Deleted, 4)
		at(10)
		for _, seconds := range []int{14, 21, 28, 35, 42} {
			nextIs(t, w, watch.Bookmark, 4)
			at(seconds)
		}
		synctest.Wait()
		if got := ws.World("").CompactRevision(); got != 4 {
			t.Errorf("history is compacted up to %d", got)
		}
	})
}

func TestStorageWantsItsConfiguration(t *testing.T) {
	ws := New(Options{})
	codec := codecs.LegacyCodec()
	for name, c := range map[string]Config{
		"no codec":       {ResourcePrefix: "/pods"},
		"no prefix":      {Codec: codec},
		"an empty one":   {Codec: codec, ResourcePrefix: "/"},
		"a relative one": {Codec: codec, ResourcePrefix: "pods"},
	} {
		if s, err := ws.Storage(c); err == nil || s != nil {
			t.Errorf("%s: accepted", name)
		}
	}
	s, err := ws.Storage(Config{Codec: codec, ResourcePrefix: "/pods"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(t.Context(), "/pods/", storage.ListOptions{ProgressNotify: true}); err == nil {
		t.Error("a watch with ProgressNotify was accepted without a NewFunc")
	}
	if err := s.ReadinessCheck(); err != nil {
		t.Error(err)
	}
	if err := s.EnableResourceSizeEstimation(nil); err == nil {
		t.Error("size estimation without keys was accepted")
	}
	keys := func(context.Context) ([]string, error) { return nil, nil }
	if err := s.EnableResourceSizeEstimation(keys); err != nil {
		t.Error(err)
	}
	if err := s.EnableResourceSizeEstimation(keys); err == nil {
		t.Error("size estimation was enabled twice")
	}
}

func TestEnableConsistentReads(t *testing.T) {
	EnableConsistentReads()
	once := feature.DefaultFeatureSupportChecker
	if !once.Supports(storage.RequestWatchProgress) {
		t.Error("progress requests are unsupported after EnableConsistentReads")
	}
	EnableConsistentReads()
	if feature.DefaultFeatureSupportChecker != once {
		t.Error("a second EnableConsistentReads has an effect")
	}
}
