package transfer

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// writer identifies an entry of metadata.managedFields.
type writer struct {
	manager, subresource string
	operation            metav1.ManagedFieldsOperationType
}

func writerOf(m metav1.ManagedFieldsEntry) writer {
	return writer{m.Manager, m.Subresource, m.Operation}
}

// fieldLengths returns the length of the fields of each writer.
func fieldLengths(managed []metav1.ManagedFieldsEntry) map[writer]int {
	out := make(map[writer]int, len(managed))
	for _, m := range managed {
		if m.FieldsV1 != nil {
			out[writerOf(m)] = len(m.FieldsV1.GetRawBytes())
		}
	}
	return out
}

// newestManager returns the manager of the newest write. The times have whole seconds: of several writers in one second, it is one who owns
// more fields than before the write, or who wrote the part of the object that changed, the status or the rest.
//
// A write through the scale subresource has no time. It owns the replicas until another writer changes them, so it is the writer of
// replicas that changed.
func newestManager(managed []metav1.ManagedFieldsEntry, before map[writer]int, patch map[string]any) string {
	var newest metav1.ManagedFieldsEntry
	_, scaled, _ := unstructured.NestedFieldNoCopy(patch, "spec", "replicas")
	status := isStatus(patch)
	for i, m := range managed {
		if scaled && m.Subresource == "scale" {
			return m.Manager
		}
		if i == 0 || compareWrites(m, newest, before, status) > 0 {
			newest = m
		}
	}
	return newest.Manager
}

func compareWrites(a, b metav1.ManagedFieldsEntry, before map[writer]int, status bool) int {
	time := func(m metav1.ManagedFieldsEntry) int64 {
		if m.Time == nil {
			return 0
		}
		return m.Time.Unix()
	}
	grown := func(m metav1.ManagedFieldsEntry) int {
		length, known := before[writerOf(m)]
		if !known || m.FieldsV1 != nil && len(m.FieldsV1.GetRawBytes()) > length {
			return 1
		}
		return 0
	}
	part := func(m metav1.ManagedFieldsEntry) int {
		if (m.Subresource == "status") == status {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(time(a), time(b)), cmp.Compare(part(a), part(b)), cmp.Compare(grown(a), grown(b)))
}

// isStatus reports whether a patch changes the status alone.
func isStatus(patch map[string]any) bool {
	_, status := patch["status"]
	return status && len(patch) == 1
}
