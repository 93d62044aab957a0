package inject_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// TestInterference: each request names the UID of the object, and no user sends one about an object that is
// gone, was replaced, or would not be created again.
func TestInterference(t *testing.T) {
	pod := func(phase string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "status": map[string]any{"phase": phase},
			"metadata": map[string]any{"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"},
		}}
	}
	running, finished := pod("Running"), pod("Succeeded")
	claim := pod("Bound")
	claim.SetFinalizers([]string{"kubernetes.io/pvc-protection"})
	terminating, scaled := pod("Running"), pod("")
	terminating.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	scaled.Object["spec"] = map[string]any{"replicas": int64(2)}
	for _, c := range []struct {
		kind     fault.Kind
		resource string
		current  *unstructured.Unstructured
		uid      string
		want     string // method, subresource, field manager, content type and body; empty: no request
	}{
		{fault.KindDelete, "pods", running, "u", `DELETE "" "" application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Background"}`},
		{fault.KindDelete, "pods", finished, "u", ""},
		{fault.KindDelete, "jobs.batch", finished, "u", `DELETE "" "" application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Background"}`},
		{fault.KindDelete, "persistentvolumeclaims", claim, "u", ""},
		{fault.KindFinalizer, "persistentvolumeclaims", claim, "u", ""},
		{fault.KindRecreate, "pods", running, "u", `DELETE "" "" application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Background"}`},
		{fault.KindRecreate, "pods", terminating, "u", ""},
		{fault.KindEdit, "pods", running, "u", `PATCH "" "" application/merge-patch+json {"metadata":{"annotations":{"rehearse-k8s.github.io/edited":"yes"},"uid":"u"}}`},
		{fault.KindEdit, "jobs.batch", scaled, "u", `PATCH "" "" application/merge-patch+json {"metadata":{"uid":"u"},"spec":{"replicas":1}}`},
		{fault.KindEvict, "pods", running, "u", `POST "eviction" "" application/json {"apiVersion":"policy/v1","deleteOptions":{"preconditions":{"uid":"u"}},"kind":"Eviction","metadata":{"name":"a","namespace":"n"}}`},
		{fault.KindEvict, "pods", finished, "u", ""},
		{fault.KindEvict, "jobs.batch", running, "u", ""},
		{fault.KindLabel, "pods", finished, "", `PATCH "" "" application/merge-patch+json {"metadata":{"labels":{"rehearse-k8s.github.io/touched":"yes"},"uid":"u"}}`},
		{fault.KindConflict, "pods", running, "", `PATCH "" "" application/merge-patch+json {"metadata":{"annotations":{"rehearse-k8s.github.io/touched":"after 7"},"uid":"u"}}`},
		{fault.KindFinalizer, "pods", running, "u", `PATCH "" "rehearse-interference" application/apply-patch+yaml {"apiVersion":"v1","kind":"Pod","metadata":{"finalizers":["` + fault.InterferenceFinalizer + `"],"name":"a","namespace":"n","uid":"u"}}`},
		{fault.KindLabel, "pods", running, "another", ""},
		{fault.KindLabel, "pods", nil, "", ""},
		{fault.KindLag, "pods", running, "u", ""},
	} {
		q, ok := inject.NewInterference(c.kind, c.resource, c.current, c.uid)
		have := ""
		if ok {
			have = fmt.Sprintf("%s %q %q %s %s", q.Method, q.Subresource, q.FieldManager, q.ContentType, q.Body)
		}
		if have != c.want {
			t.Errorf("%s of %s:\nhave %s\nwant %s", c.kind, c.resource, have, c.want)
		}
	}
	claim.SetFinalizers(append(claim.GetFinalizers(), "example.com/backup"))
	if q, ok := inject.Unprotect(claim); !ok || string(q.Body) != `{"metadata":{"finalizers":["example.com/backup"],"uid":"u"}}` {
		t.Errorf("%t %s", ok, q.Body)
	}
	if _, ok := inject.Unprotect(running); ok {
		t.Error("a pod is not protected")
	}
	remove := inject.RemoveFinalizer(running)
	if want := `{"apiVersion":"v1","kind":"Pod","metadata":{"finalizers":[],"name":"a","namespace":"n","uid":"u"}}`; string(remove.Body) != want {
		t.Errorf("have %s\nwant %s", remove.Body, want)
	}
}
