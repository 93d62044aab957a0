package rehearsal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

var configMaps, secrets = schema.GroupResource{Resource: "configmaps"}, schema.GroupResource{Resource: "secrets"}

// observe passes an event about an object to a mirror.
func observe(m *mirror, resource schema.GroupResource, kind watch.EventType, name string, revision int) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing"}}
	o.SetNamespace("default")
	o.SetName(name)
	o.SetResourceVersion(fmt.Sprint(revision))
	m.handle(resource, watch.Event{Type: kind, Object: o})
}

// orderedRevisions returns the revisions of the changes since a cursor; a - marks a deletion.
func orderedRevisions(t *testing.T, m *mirror, cursor *int64) string {
	t.Helper()
	changes, next, err := m.changes(*cursor)
	if err != nil {
		t.Fatal(err)
	}
	*cursor = next
	var words []string
	for _, c := range changes {
		word := fmt.Sprint(c.Revision)
		if c.Value == nil {
			word += "-"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestMirrorOrder: writes that watches deliver out of order are returned once, in the order of revisions,
// after a delay.
func TestMirrorOrder(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMirror(func() time.Time { return now })
	observe(m, configMaps, watch.Added, "a", 3)
	_, revision, cursor, err := m.current()
	if revision != 3 || err != nil {
		t.Fatal(revision, err)
	}
	observe(m, configMaps, watch.Added, "b", 7)
	now = now.Add(orderDelay / 2)
	observe(m, secrets, watch.Added, "b", 6)
	observe(m, secrets, watch.Deleted, "a", 5)
	observe(m, configMaps, watch.Deleted, "a", 9)
	if got := orderedRevisions(t, m, &cursor); got != "" {
		t.Errorf("too early: %s", got)
	}
	now = now.Add(orderDelay / 2)
	if got := orderedRevisions(t, m, &cursor); got != "5- 6 7" {
		t.Errorf("after a while: %s", got)
	}
	observe(m, configMaps, watch.Modified, "b", 7) // again, as after a watch that was interrupted
	now = now.Add(orderDelay)
	if got := orderedRevisions(t, m, &cursor); got != "9-" {
		t.Errorf("in the end: %s", got)
	}
	kvs, revision, later, err := m.current()
	if len(kvs) != 2 || revision != 9 || later != cursor || err != nil {
		t.Errorf("%d objects at %d, cursor %d not %d, %v", len(kvs), revision, later, cursor, err)
	}
}

// TestMirrorFailure: a watch that ends for good is an error.
func TestMirrorFailure(t *testing.T) {
	m := newMirror(time.Now)
	_, _, cursor, _ := m.current()
	watcher := watch.NewFake()
	watcher.Stop()
	m.receive(t.Context(), configMaps, watcher)
	if _, _, err := m.changes(cursor); err == nil || !strings.Contains(err.Error(), "watch configmaps: the watch ended") {
		t.Error(err)
	}
	calm := newMirror(time.Now)
	ended, stop := context.WithCancel(t.Context())
	stop()
	calm.receive(ended, configMaps, watcher)
	if _, _, _, err := calm.current(); err != nil {
		t.Error(err)
	}
}
