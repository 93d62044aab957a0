package transfer

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNewestManager: the manager of the newest write, with times of whole seconds.
func TestNewestManager(t *testing.T) {
	entry := func(manager, subresource, fields string, second int) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Unix(int64(second), 0))
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Operation: "Update", Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	creator, later, kubelet := entry("creator", "", "12345", 1), entry("later", "", "123", 2), entry("kubelet", "status", "1", 2)
	all := []metav1.ManagedFieldsEntry{creator, later, kubelet}
	shrunk, same := entry("creator", "", "1234", 2), entry("later", "", "123", 2)
	scaler := metav1.ManagedFieldsEntry{Manager: "scaler", Subresource: "scale", Operation: "Update"} // the API server sets no time
	status, labels, replicas := map[string]any{"status": map[string]any{}}, map[string]any{"metadata": map[string]any{}}, map[string]any{"spec": map[string]any{"replicas": int64(3)}}
	for name, c := range map[string]struct {
		managed []metav1.ManagedFieldsEntry
		before  []metav1.ManagedFieldsEntry
		patch   map[string]any
		want    string
	}{
		"none":                       {nil, nil, labels, ""},
		"newest":                     {all[:2], nil, labels, "later"},
		"newest, in another order":   {[]metav1.ManagedFieldsEntry{later, creator}, nil, labels, "later"},
		"status of the same second":  {all, all, status, "kubelet"},
		"rest of the same second":    {all, all, labels, "later"},
		"takes a field from another": {[]metav1.ManagedFieldsEntry{shrunk, same}, all[:1], labels, "later"},
		"replicas by scale":          {append(all, scaler), append(all, scaler), replicas, "scaler"},
		"others after scale":         {append(all, scaler), all, labels, "later"},
		"without a time":             {[]metav1.ManagedFieldsEntry{{Manager: "old"}, creator}, nil, labels, "creator"},
	} {
		if got := newestManager(c.managed, fieldLengths(c.before), c.patch); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestDueEvents: events leave the queue in the order of their revisions, together with later arrivals that are older.
func TestDueEvents(t *testing.T) {
	start := time.Unix(100, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	queue := []event{{revision: 7, arrived: at(0)}, {revision: 5, arrived: at(10)}, {revision: 6, arrived: at(150)}, {revision: 9, arrived: at(160)}}
	if due := dueEvents(&queue, at(-1)); due != nil || len(queue) != 4 {
		t.Errorf("%v of %v", due, queue)
	}
	var got []uint64
	for _, e := range dueEvents(&queue, at(20)) {
		got = append(got, e.revision)
	}
	if len(got) != 3 || got[0] != 5 || got[1] != 6 || got[2] != 7 || len(queue) != 1 || queue[0].revision != 9 {
		t.Errorf("due %v, queued %v", got, queue)
	}
}
