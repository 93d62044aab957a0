package live

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/proxy"
)

// What faults ask for that a proxy cannot do. These are called from the goroutines of
// requests.

// crash kills a client's process and has another one begin.
func (r *run) crash(actor string, f fault.Fault) {
	c := r.client(actor)
	if c == nil || !c.crash() {
		return
	}
	again := func() { _ = c.start(f.String(), "begins anew") }
	if f.For == 0 && f.Writes == 0 {
		r.watchers.Go(again)
		return
	}
	r.later(f, again)
}

// overlap begins a second instance of a client; the first ends when the fault's time is over.
func (r *run) overlap(actor string, f fault.Fault) {
	c := r.client(actor)
	if c == nil || r.client(actor+"+") != nil {
		return
	}
	next, err := r.newClient(c.spec, actor+"+", c.printed)
	if err != nil {
		r.record.Add(history.Step{Kind: history.Crash, Actor: actor + "+", Fault: f.String(), Note: "a second instance could not begin: " + err.Error()})
		return
	}
	r.mu.Lock()
	r.clients[next.actor] = next
	r.mu.Unlock()
	r.later(f, func() {
		r.record.Add(history.Step{Kind: history.Crash, Actor: actor, Fault: f.String(), Note: "the old instance ends"})
		c.end()
	})
	_ = next.start(f.String(), "a second instance begins")
}

// interfere lets somebody else act on an object that a client has just written.
func (r *run) interfere(f fault.Fault, o history.Object) {
	gvr, namespaced, err := r.served(o.Resource)
	if err != nil {
		return
	}
	if apart := r.place.apart; apart != nil && apart(keyOf(gvr.GroupResource(), o.Namespace, o.Name)) {
		return
	}
	to := resourceIn(r.somebody, gvr, namespaced, o.Namespace)
	ctx := proxy.Because(r.ctx, f.String())
	switch f.Kind {
	case fault.KindDelete, fault.KindEvict:
		if r.finished(ctx, to, o) {
			return // nobody makes such a pod again
		}
		if f.Kind == fault.KindEvict {
			r.evict(ctx, to, o)
			return
		}
		background := metav1.DeletePropagationBackground
		_ = to.Delete(ctx, o.Name, metav1.DeleteOptions{PropagationPolicy: &background})
	case fault.KindLabel:
		_, _ = to.Patch(ctx, o.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"rehearse-k8s.github.io/touched":"yes"}}}`), metav1.PatchOptions{})
	case fault.KindFinalizer:
		if setFinalizer(ctx, to, o.Name, true) {
			r.later(f, func() { setFinalizer(ctx, to, o.Name, false) })
		}
	}
}

func (r *run) evict(ctx context.Context, to dynamic.ResourceInterface, o history.Object) {
	if o.Resource != "pods" {
		return
	}
	u, err := toUnstructured(&policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
	})
	if err == nil {
		_, _ = to.Create(ctx, u, metav1.CreateOptions{}, "eviction")
	}
}

// finished tells whether an object is a pod that has run to its end.
func (r *run) finished(ctx context.Context, to dynamic.ResourceInterface, o history.Object) bool {
	if o.Resource != "pods" {
		return false
	}
	u, err := to.Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}

// setFinalizer adds or takes away the foreign finalizer, leaving the others alone, and
// tells whether it did.
func setFinalizer(ctx context.Context, to dynamic.ResourceInterface, name string, there bool) bool {
	for range 5 { // somebody may write it in between
		u, err := to.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		finalizers := slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == fault.ForeignFinalizer })
		if there {
			finalizers = append(finalizers, fault.ForeignFinalizer)
		}
		if finalizers == nil {
			finalizers = []string{}
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers, "resourceVersion": u.GetResourceVersion()}})
		if err != nil {
			return false
		}
		_, err = to.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err == nil {
			return true
		}
		if !strings.Contains(err.Error(), "the object has been modified") {
			return false
		}
	}
	return false
}
