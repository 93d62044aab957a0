package stages

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// TestConditionIsWrittenOnce checks that a condition that was written is not written again before the cache
// shows it, because that would conflict, and that a newer version of the Stage without the condition gets it.
func TestConditionIsWrittenOnce(t *testing.T) {
	var writes int
	server := wireFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch {
			writes++
		}
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":"Stage","metadata":{"name":"s","resourceVersion":"7"}}`)),
		}, nil
	})
	e, err := NewStageEngine(&rest.Config{Host: "http://x", Transport: server}, StageOptions{Stages: testSet(t, testStages), Watch: true})
	must(t, err)
	store, playing, retries := cache.NewStore(cache.MetaNamespaceKeyFunc), "", conditionRetries{}
	for _, step := range []struct {
		version string // of the Stage in the cache
		want    int    // writes so far
	}{{"5", 1}, {"5", 1}, {"6", 1}, {"8", 2}} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(v1alpha1.GroupVersion.String())
		u.SetKind(v1alpha1.StageKind)
		u.SetName("s")
		u.SetResourceVersion(step.version)
		must(t, store.Add(u))
		e.takeStages(t.Context(), store, &playing, retries)
		if writes != step.want {
			t.Errorf("%d writes with revision %s in the cache, want %d", writes, step.version, step.want)
		}
		if at := retries.next(); !at.IsZero() {
			t.Errorf("a write that succeeded is due again at %s", at)
		}
	}
}

// TestConditionRetries checks that after a failure the same version waits for a backoff, and another version
// does not.
func TestConditionRetries(t *testing.T) {
	r, now := conditionRetries{}, metav1.Now().Time
	r.wrote("s", "5")
	if wait := r.failed(now, "s", "5"); wait != conditionFirst {
		t.Errorf("the first wait is %s, want %s", wait, conditionFirst)
	}
	if wait := r.failed(now, "s", "5"); wait != 2*conditionFirst {
		t.Errorf("the second wait is %s, want %s", wait, 2*conditionFirst)
	}
	if !r.waits(now.Add(2*conditionFirst-time.Millisecond), "s", "5") || r.waits(now.Add(2*conditionFirst), "s", "5") || r.waits(now, "s", "6") {
		t.Error("only the version of the failed write waits, for its backoff")
	}
}
