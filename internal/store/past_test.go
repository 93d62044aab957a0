package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestThePastIsKept checks that a read at any revision since the last compaction returns the state
// at that revision, and a read before it fails.
func TestThePastIsKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := New(Options{}).World("run")
		was := map[int64]map[string]string{1: {}} // by revision
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			key := fmt.Sprintf("/k%d", rapid.IntRange(0, 3).Draw(rt, "key"))
			now := maps.Clone(was[w.Revision()])
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			case 0:
				rev := rapid.Int64Range(1, w.Revision()).Draw(rt, "compact")
				if err := w.Compact(rev); (err == nil) != (w.CompactRevision() == rev) && !errors.Is(err, ErrCompacted) {
					rt.Fatalf("compact %d: %v", rev, err)
				}
				continue
			case 1, 2:
				if _, ok := w.RawDelete(key, anyRevision); !ok {
					continue
				}
				delete(now, key)
			default:
				now[key] = fmt.Sprint("v", w.Revision())
				w.RawPut(key, []byte(now[key]), anyRevision)
			}
			was[w.Revision()] = now
		}
		for rev := int64(1); rev <= w.Revision()+1; rev++ {
			checkPast(rt, w, rev, was[rev])
		}
	})
}

func checkPast(rt *rapid.T, w *World, rev int64, want map[string]string) {
	kvs, count, _, err := w.RawRange("/", toTheEnd, 0, rev)
	switch {
	case rev < w.CompactRevision():
		if !errors.Is(err, ErrCompacted) {
			rt.Fatalf("revision %d: %v", rev, err)
		}
		return
	case rev > w.Revision():
		if !errors.Is(err, ErrFutureRevision) {
			rt.Fatalf("revision %d: %v", rev, err)
		}
		return
	case err != nil:
		rt.Fatalf("revision %d: %v", rev, err)
	}
	got := map[string]string{}
	for _, kv := range kvs {
		got[kv.Key] = string(kv.Value)
	}
	if !maps.Equal(got, want) || count != int64(len(want)) {
		rt.Fatalf("revision %d contains %v (%d), expected %v", rev, got, count, want)
	}
	if !slices.IsSortedFunc(kvs, func(a, b KV) int { return strings.Compare(a.Key, b.Key) }) {
		rt.Fatalf("revision %d is not in order", rev)
	}
}
