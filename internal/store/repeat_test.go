package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"pgregory.net/rapid"
)

// TestFork checks that the world of a run starts with the selected keys, at the given revision, and
// that later writes of either world do not affect the other.
func TestFork(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	process := ws.World("")
	for _, key := range []string{"/namespaces/b", "/namespaces/a", "/secrets/x"} {
		process.RawPut(key, []byte(key), 0)
	}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	options := RunOptions{Seed: 7, Revision: 1000, Now: func() time.Time { return now }, Keep: func(key string) bool { return strings.HasPrefix(key, "/namespaces/") }}
	fork := func(run string, o RunOptions) *World {
		t.Helper()
		w, err := ws.Fork(run, o)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := fork("one", options)
	kvs, _, header, err := w.RawRange("", "\x00", 0, 0)
	if err != nil || header != 1000 || len(kvs) != 2 || kvs[0].Key != "/namespaces/a" || kvs[1].Key != "/namespaces/b" {
		t.Fatalf("the world begins at %d with %+v, %v", header, kvs, err)
	}
	one := WithRun(t.Context(), "one")
	p := pod("ns", "a")
	p.UID, p.CreationTimestamp = "of the server", metav1.Now()
	made := mustCreate(t, one, s, p)
	if made.ResourceVersion != "1001" || !made.CreationTimestamp.Time.Equal(now) {
		t.Errorf("created at revision %s and %s", made.ResourceVersion, made.CreationTimestamp)
	}
	if process.Revision() != 4 {
		t.Errorf("the process's world is at %d", process.Revision())
	}
	process.RawPut("/namespaces/c", nil, 0)
	if w.Revision() != 1001 {
		t.Errorf("the run's world is at %d", w.Revision())
	}

	// The UID depends on the seed, the key and how often it was created.
	uids := map[types.UID]string{made.UID: "first"}
	for _, c := range []struct {
		run  string
		seed uint64
		same bool
	}{{"two", 7, true}, {"three", 8, false}} {
		options.Seed = c.seed
		fork(c.run, options)
		again := mustCreate(t, WithRun(t.Context(), c.run), s, p.DeepCopy())
		if (again.UID == made.UID) != c.same {
			t.Errorf("seed %d gives %s, seed 7 %s", c.seed, again.UID, made.UID)
		}
		uids[again.UID] = c.run
	}
	if err := s.Delete(one, "/pods/ns/a", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := mustCreate(t, one, s, p.DeepCopy()); uids[second.UID] != "" {
		t.Errorf("the second of the name has the UID of %s", uids[second.UID])
	}

	for run, o := range map[string]RunOptions{"": options, "one": options, "four": {Revision: 1, Keep: options.Keep}} {
		if _, err := ws.Fork(run, o); err == nil {
			t.Errorf("run %q at revision %d was forked", run, o.Revision)
		}
	}
}

// TestRepeat checks that a world that repeats another's writes equals it in everything that can be
// read: keys, history and watch events.
func TestRepeat(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ws := New(Options{})
		var worlds [2]*World
		for i := range worlds {
			w, err := ws.Fork(fmt.Sprint(i), RunOptions{Seed: 1, Revision: 10})
			if err != nil {
				r.Fatal(err)
			}
			worlds[i] = w
		}
		a, b := worlds[0], worlds[1]
		key := rapid.SampledFrom([]string{"/x/1", "/x/2", "/y/1"})
		for range rapid.IntRange(1, 6).Draw(r, "requests") {
			before := a.Revision()
			for range rapid.IntRange(0, 3).Draw(r, "writes") {
				if k := key.Draw(r, "key"); rapid.Bool().Draw(r, "delete") {
					a.RawDelete(k, anyRevision)
				} else {
					a.RawPut(k, []byte(rapid.StringN(0, 3, -1).Draw(r, "value")), anyRevision)
				}
			}
			changes, err := a.Changes(before)
			if err != nil {
				r.Fatal(err)
			}
			if int64(len(changes)) != a.Revision()-before {
				r.Fatalf("%d changes from revision %d to %d", len(changes), before, a.Revision())
			}
			if err := b.Repeat(changes); err != nil {
				r.Fatal(err)
			}
			if len(changes) > 0 && b.Repeat(changes) == nil {
				r.Fatal("the same was repeated twice")
			}
		}
		for rev := int64(10); rev <= a.Revision(); rev++ {
			inA, _, _, errA := a.RawRange("", "\x00", 0, rev)
			inB, _, _, errB := b.RawRange("", "\x00", 0, rev)
			if errA != nil || errB != nil {
				r.Fatal(errA, errB)
			}
			if diff := cmp.Diff(inA, inB); diff != "" {
				r.Fatalf("at revision %d: %s", rev, diff)
			}
		}
		changesA, _ := a.Changes(10)
		changesB, _ := b.Changes(10)
		if diff := cmp.Diff(changesA, changesB, cmpopts.IgnoreUnexported(Change{})); diff != "" {
			r.Fatal(diff)
		}
		if diff := cmp.Diff(a.identity.made, b.identity.made); diff != "" {
			r.Fatalf("incarnations: %s", diff)
		}
	})
}

// TestChangesForgotten checks the error for changes that were compacted.
func TestChangesForgotten(t *testing.T) {
	w := New(Options{}).World("run")
	w.RawPut("/a", nil, 0)
	w.RawPut("/b", nil, 0)
	if err := w.Compact(2); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Changes(1); err != ErrCompacted { //nolint:errorlint // documented to be exactly this error
		t.Errorf("got %v", err)
	}
	if changes, err := w.Changes(2); err != nil || len(changes) != 1 || changes[0].Key != "/b" {
		t.Errorf("got %+v, %v", changes, err)
	}
}

// TestRepeatIsDelivered checks that watches of the world that repeats receive the writes.
func TestRepeatIsDelivered(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	for _, run := range []string{"a", "b"} {
		if _, err := ws.Fork(run, RunOptions{Revision: 10}); err != nil {
			t.Fatal(err)
		}
	}
	watching := mustWatch(t, WithRun(t.Context(), "b"), s, everything(10))
	mustCreate(t, WithRun(t.Context(), "a"), s, pod("ns", "a"))
	changes, err := ws.World("a").Changes(10)
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.World("b").Repeat(changes); err != nil {
		t.Fatal(err)
	}
	if event := <-watching.ResultChan(); rvOf(t, event.Object) != 11 || event.Object.(*example.Pod).Name != "a" {
		t.Errorf("the watch received %+v", event)
	}
}
