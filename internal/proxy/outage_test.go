package proxy_test

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// TestOutage: all watches of the client end, and each request is answered 503 until the hold ends. Other clients notice
// nothing.
func TestOutage(t *testing.T) {
	p := newProxy(t)
	c, other, ns := through(t, p, "c", admin), through(t, p, "other", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindOutage, Actor: "c", Verb: "create", Resource: "configmaps", For: time.Hour}.String())
	first, second, others := follow(t, c, ns), follow(t, c, ns), follow(t, other, ns)
	if err := create(t.Context(), c, ns, "a"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the create: %v", err)
	}
	if _, delayed := apierrors.SuggestsClientDelay(create(t.Context(), c, ns, "a")); delayed {
		t.Error("the answer has Retry-After")
	}
	if _, err := c.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a read: %v", err)
	}
	if _, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a watch: %v", err)
	}
	must(t, create(t.Context(), other, ns, "b"))
	if seen := slices.Concat(events(t, first, 1), events(t, second, 1), events(t, others, 1)); !slices.Equal(seen, []string{"end", "end", "ADDED b"}) {
		t.Errorf("observed %q", seen)
	}
	if exists(t, ns, "a") {
		t.Error("a request during the outage had effect")
	}
	r.End()
	must(t, create(t.Context(), c, ns, "a"))
}

// TestPartition: the client reads and watches, and its writes have no effect and no answer, until the hold ends.
func TestPartition(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, fault.Fault{Kind: fault.KindPartition, Actor: "c", Resource: "configmaps", For: time.Hour}.String())
	w := follow(t, c, ns)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := create(ctx, c, ns, "a"); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("the create: %v", err)
		}
		cancel()
	}
	must(t, create(t.Context(), direct, ns, "b"))
	if seen := events(t, w, 1); !slices.Equal(seen, []string{"ADDED b"}) {
		t.Errorf("observed %q", seen)
	}
	if _, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "b", metav1.GetOptions{}); err != nil || exists(t, ns, "a") {
		t.Errorf("a read: %v; the writes had effect: %t", err, exists(t, ns, "a"))
	}
	r.End()
	must(t, create(t.Context(), c, ns, "a"))
}
