//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// TestMirrorAnyOrder: whichever way the watches of several resources interleave, changes returns each write once, in
// the order of revisions, and the objects are those of the last writes.
func TestMirrorAnyOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now := time.Unix(0, 0)
		m := newMirror(func() time.Time { return now })
		resources := []schema.GroupResource{configMaps, secrets, {Group: "batch", Resource: "jobs"}}
		// Revision n is a write of one resource; each watch delivers its own writes in their order.
		count := rapid.IntRange(1, 30).Draw(r, "writes")
		queues, last := make([][]int, len(resources)), map[string]int{}
		for revision := 1; revision <= count; revision++ {
			of := rapid.IntRange(0, len(resources)-1).Draw(r, "resource")
			queues[of] = append(queues[of], revision)
		}
		_, _, cursor, err := m.current()
		if err != nil {
			r.Fatal(err)
		}
		var got []int64
		collect := func() {
			changes, next, err := m.changes(cursor)
			if err != nil {
				r.Fatal(err)
			}
			for _, c := range changes {
				got = append(got, c.Revision)
			}
			cursor = next
		}
		for slices.ContainsFunc(queues, func(q []int) bool { return len(q) > 0 }) {
			of := rapid.IntRange(0, len(resources)-1).Draw(r, "next")
			if len(queues[of]) == 0 {
				continue
			}
			revision := queues[of][0]
			queues[of] = queues[of][1:]
			name := fmt.Sprint("o", rapid.IntRange(0, 2).Draw(r, "name"))
			kind := watch.Modified
			last[keyOf(resources[of], "default", name)] = revision
			if rapid.IntRange(0, 4).Draw(r, "deleted") == 0 {
				kind = watch.Deleted
				delete(last, keyOf(resources[of], "default", name))
			}
			observe(m, resources[of], kind, name, revision)
			collect() // all events arrive within orderDelay, so none is returned yet
		}
		if len(got) > 0 {
			r.Fatalf("%v before the delay", got)
		}
		now = now.Add(orderDelay)
		collect()
		for n, revision := range got {
			if revision != int64(n+1) {
				r.Fatalf("revisions %v, want 1 to %d", got, count)
			}
		}
		if len(got) != count {
			r.Fatalf("%d writes, want %d", len(got), count)
		}
		kvs, revision, _, err := m.current()
		if err != nil || len(kvs) != len(last) || revision != int64(count) {
			r.Fatalf("%d objects at %d, want %d at %d: %v", len(kvs), revision, len(last), count, err)
		}
		for _, kv := range kvs {
			if kv.ModRevision != int64(last[kv.Key]) {
				r.Fatalf("%s at %d, want %d", kv.Key, kv.ModRevision, last[kv.Key])
			}
		}
	})
}

// TestMirrorErrors: what the mirror cannot follow is an error of all later calls; bookmarks are no writes.
func TestMirrorErrors(t *testing.T) {
	object := func(revision string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		o.SetName("a")
		o.SetResourceVersion(revision)
		return o
	}
	for name, c := range map[string]struct {
		event watch.Event
		want  string
	}{
		"no number":      {watch.Event{Type: watch.Added, Object: object("x7")}, `configmaps a has resource version "x7": want a number`},
		"no revision":    {watch.Event{Type: watch.Added, Object: object("")}, `configmaps a has resource version "": want a number`},
		"an error frame": {watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "too old"}}, "watch configmaps: the watch ended: too old"},
		"a bookmark":     {watch.Event{Type: watch.Bookmark, Object: object("9")}, ""},
	} {
		m := newMirror(time.Now)
		m.handle(configMaps, c.event)
		m.handle(configMaps, watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "a later one"}})
		_, _, err := m.changes(0)
		want := c.want
		if want == "" {
			want = "a later one"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want the first error, %q", name, err, want)
		}
		if _, _, snapshot := m.snapshot(); !errors.Is(snapshot, err) {
			t.Errorf("%s: the snapshot's error is %v", name, snapshot)
		}
		kvs, _, _, _ := m.current()
		equal(t, name, 0, len(kvs))
	}
}

// TestMirrorCursor: a cursor from before the last current is compacted.
func TestMirrorCursor(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMirror(func() time.Time { return now })
	_, _, first, _ := m.current()
	observe(m, configMaps, watch.Added, "a", 1)
	now = now.Add(orderDelay)
	if got := orderedRevisions(t, m, &first); got != "1" {
		t.Errorf("changes %s", got)
	}
	_, _, second, _ := m.current()
	if _, next, err := m.changes(0); !errors.Is(err, store.ErrCompacted) || next != second {
		t.Errorf("an old cursor gives %v and %d, want %d", err, next, second)
	}
	if changes, _, err := m.changes(second); err != nil || len(changes) != 0 {
		t.Errorf("%v %v", changes, err)
	}
}

// TestMirrorResources: keys and resources translate into each other for the resources that the mirror follows.
func TestMirrorResources(t *testing.T) {
	m := newMirror(time.Now)
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	m.resources[jobs.GroupResource()] = jobs
	for key, want := range map[string]string{
		keyOf(jobs.GroupResource(), "default", "pi"): "jobs.batch default",
		keyOf(jobs.GroupResource(), "", "pi"):        "jobs.batch ",
		keyOf(configMaps, "default", "a"):            "not followed",
		"/":                                          "not followed",
	} {
		resource, ok := m.ResourceOf(key)
		got := "not followed"
		if ok {
			got = resource.String() + " " + namespaceOf(key)
		}
		equal(t, key, want, got)
	}
	equal(t, "directory", "/jobs.batch/", m.Directory(jobs.GroupResource()))
	equal(t, "directory of another", "", m.Directory(secrets))
	equal(t, "version", jobs, m.version(jobs.GroupResource()))
	observe(m, jobs.GroupResource(), watch.Added, "pi", 4)
	if !m.has("/jobs.batch/default/pi") || m.has("/jobs.batch/default/e") {
		t.Error("has does not know which objects exist")
	}
}

// TestMirrorSnapshot: a snapshot does not change, and its channel is closed at the next change.
func TestMirrorSnapshot(t *testing.T) {
	m := newMirror(time.Now)
	observe(m, configMaps, watch.Added, "a", 1)
	before, moved, err := m.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-moved:
		t.Error("closed without a change")
	default:
	}
	observe(m, configMaps, watch.Deleted, "a", 2)
	select {
	case <-moved:
	default:
		t.Error("not closed by a change")
	}
	after, _, _ := m.snapshot()
	if len(before) != 1 || len(after) != 0 {
		t.Errorf("%d objects before, %d after", len(before), len(after))
	}
}

// TestCatchUp: catchUp returns once a revision has been observed and ordered, and gives up after a second, because a
// resource that is not watched never delivers its revision.
func TestCatchUp(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration // when the revision is observed; 0: never
		cancel time.Duration // when the context is done; 0: never
		want   time.Duration
	}{
		"at once":               {after: time.Nanosecond, want: orderDelay},
		"a moment later":        {after: 300 * time.Millisecond, want: 300*time.Millisecond + orderDelay},
		"never":                 {want: catchUpTimeout},
		"the context is done":   {cancel: 200 * time.Millisecond, want: 200 * time.Millisecond},
		"done during the delay": {after: 10 * time.Millisecond, cancel: 20 * time.Millisecond, want: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMirror(time.Now)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.after > 0 {
					time.AfterFunc(c.after, func() {
						observe(m, configMaps, watch.Added, "x", 6) // not far enough
						observe(m, configMaps, watch.Added, "a", 7)
					})
				}
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				began := time.Now()
				m.catchUp(ctx, 7)
				if took := time.Since(began).Round(time.Millisecond); took != c.want {
					t.Errorf("took %s, want %s", took, c.want)
				}
			})
		})
	}
}
