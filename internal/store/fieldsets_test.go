package store

import (
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// managed returns the field set of a stored pod.
func managed(t *testing.T, s storage.Interface, name string) *metav1.FieldsV1 {
	t.Helper()
	got := &example.Pod{}
	if err := s.Get(t.Context(), "/pods/ns/"+name, storage.GetOptions{}, got); err != nil {
		t.Fatal(err)
	}
	return got.ManagedFields[0].FieldsV1
}

// TestFieldSetsAreShared: objects share equal field sets, an update does not change those of others, and each object keeps
// what was written.
func TestFieldSetsAreShared(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	for name, fields := range map[string]string{"a": `{"f:spec":{}}`, "b": `{"f:spec":{}}`, "c": `{"f:status":{}}`} {
		p := pod("ns", name)
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", FieldsV1: metav1.NewFieldsV1(fields)}}
		mustCreate(t, t.Context(), s, p)
	}
	if managed(t, s, "a") != managed(t, s, "b") {
		t.Error("two objects with equal field sets do not share them")
	}
	mustUpdate(t, t.Context(), s, "/pods/ns/a", func(p *example.Pod) {
		p.ManagedFields[0].FieldsV1.SetRawString(`{"f:metadata":{}}`)
	})
	for name, want := range map[string]string{"a": `{"f:metadata":{}}`, "b": `{"f:spec":{}}`, "c": `{"f:status":{}}`} {
		if got := managed(t, s, name).GetRawString(); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	checkShared(t, s)
}

// TestFieldSetsAreBounded: very many different sets are not kept.
func TestFieldSetsAreBounded(t *testing.T) {
	var f fieldSets
	for n := range 3 * maxFieldSets {
		p := pod("ns", "p")
		p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:` + strconv.Itoa(n) + `":{}}`)}}
		f.share(p)
	}
	if len(f.known) > maxFieldSets {
		t.Errorf("%d field sets are known, want at most %d", len(f.known), maxFieldSets)
	}
}
