package stages

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage"
)

// TestWritesAreSentOnce checks that the engine sends each write once. client-go repeats a request that is
// answered with 503 and Retry-After up to ten times, long after the decision; here the table decides again
// instead. Requests about the object that a stage was chosen for contain its UID and resourceVersion: without
// them a patch would change a successor of the same name, and a write that commits after its 504 would
// overwrite a newer state.
func TestWritesAreSentOnce(t *testing.T) { synctest.Test(t, testWritesAreSentOnce) }

func testWritesAreSentOnce(t *testing.T) {
	var sent []string // the bodies
	unavailable := wireFunc(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		return &http.Response{
			StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"1"}, "Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":503}`)), Request: r,
		}, err
	})
	e, err := NewStageEngine(&rest.Config{Host: "http://x", Transport: unavailable}, StageOptions{Stages: testSet(t, testStages)})
	must(t, err)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid-p", ResourceVersion: "5"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	key := keyOf(pod)
	own := stage.Request{
		Verb: stage.VerbPatch, Kind: stage.KindPod, Namespace: "default", Name: "p", Own: true, UID: pod.UID,
		Type: types.MergePatchType, Subresource: "status", Body: map[string]any{"status": map[string]any{"phase": "Failed"}},
	}
	as, test, other := own, own, own
	as.As, test.Type, test.Body = "another-user", types.JSONPatchType, []any{}
	other.Own, other.Verb, other.Subresource = false, stage.VerbApply, ""
	for name, c := range map[string]struct {
		write func(context.Context) error
		exact bool // the request contains UID and resourceVersion
	}{
		"status of a pod": {func(ctx context.Context) error {
			_, err := e.update(ctx, key, &stage.Effects{Object: pod, Write: stage.WriteStatus})
			return err
		}, true},
		"delete": {func(ctx context.Context) error {
			return e.remove(ctx, key, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: ptr.To("5")}})
		}, true},
		"patch":                 {func(ctx context.Context) error { _, _, err := e.send(ctx, &own, "5"); return err }, true},
		"patch as another user": {func(ctx context.Context) error { _, _, err := e.send(ctx, &as, "5"); return err }, true},
		"JSON patch":            {func(ctx context.Context) error { _, _, err := e.send(ctx, &test, "5"); return err }, true},
		"another object":        {func(ctx context.Context) error { _, _, err := e.send(ctx, &other, "5"); return err }, false},
		"lease": {func(ctx context.Context) error {
			return e.writeLease(ctx, &nodeLease{uid: "uid-n", node: "n"}).err
		}, false},
		"event": {func(ctx context.Context) error {
			e.recordEvent(ctx, key, pod.UID, "5", 1, stage.Event{Reason: "r"})
			return io.EOF // not an API error
		}, false},
	} {
		sent = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := c.write(ctx)
		cancel()
		if err == nil || len(sent) != 1 {
			t.Fatalf("%s: sent %d times, error %v", name, len(sent), err)
		}
		if c.exact && (!strings.Contains(sent[0], string(pod.UID)) || !strings.Contains(sent[0], "5")) {
			t.Errorf("%s: %q contains no UID and resourceVersion", name, sent[0])
		}
	}
	// The condition of a Stage is written with client-go's dynamic client, which repeats the request, with a
	// resourceVersion.
	sent = nil
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "s", "uid": "uid-s", "resourceVersion": "7"}}}
	if _, err := e.setCondition(t.Context(), u, v1alpha1.Condition{Type: stageReady, Status: "True"}); err == nil || len(sent) == 0 {
		t.Fatalf("sent %d times, error %v", len(sent), err)
	}
	var body metav1.PartialObjectMetadata
	must(t, json.Unmarshal([]byte(sent[0]), &body))
	if body.UID != "uid-s" || body.ResourceVersion != "7" {
		t.Errorf("the condition of a Stage is written to UID %q at %q", body.UID, body.ResourceVersion)
	}
}
