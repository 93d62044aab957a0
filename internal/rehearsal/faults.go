package rehearsal

import (
	"context"
	"encoding/json"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// The effects of faults that the proxy cannot produce. The proxy calls these functions from the goroutines of
// requests.

// crash kills a client's process and starts another one.
func (r *run) crash(actor string, f fault.Fault) {
	c := r.client(actor)
	if c == nil || !c.crash() {
		return
	}
	again := func() { _ = c.start(f.String(), "restarted") }
	if f.For == 0 && f.Writes == 0 {
		r.watchers.Go(again)
		return
	}
	r.afterFault(f, again)
}

// overlap starts a second instance of a client. The first one is killed when the time of the fault is over.
func (r *run) overlap(actor string, f fault.Fault) {
	c := r.client(actor)
	if c == nil || r.client(actor+"+") != nil {
		return
	}
	next, err := r.newClient(c.spec, actor+"+", c.output)
	if err != nil {
		r.record.Add(history.Step{Kind: history.Crash, Actor: actor + "+", Fault: f.String(), Note: "a second instance could not start: " + err.Error()})
		return
	}
	r.mu.Lock()
	r.clients[next.actor] = next
	r.mu.Unlock()
	r.afterFault(f, func() {
		r.record.Add(history.Step{Kind: history.Crash, Actor: actor, Fault: f.String(), Note: "the old instance exits"})
		c.stop()
	})
	_ = next.start(f.String(), "a second instance starts")
}

// interfere changes an object that a client has just written, as another user.
func (r *run) interfere(f fault.Fault, o history.Object) {
	gvr, namespaced, err := r.served(o.Resource)
	if err != nil {
		return
	}
	if excluded := r.world.excluded; excluded != nil && excluded(keyOf(gvr.GroupResource(), o.Namespace, o.Name)) {
		return
	}
	if owns := r.world.owns; owns != nil && !owns(r.ctx, o) {
		return
	}
	to := resourceIn(r.otherUser, gvr, namespaced, o.Namespace)
	ctx := proxy.Because(r.ctx, f.String())
	uid := types.UID(o.UID)
	switch f.Kind {
	case fault.KindDelete, fault.KindEvict:
		if r.isFinishedPod(ctx, to, o) {
			return // no controller replaces a finished pod
		}
		if f.Kind == fault.KindEvict {
			r.evict(ctx, to, o)
			return
		}
		background := metav1.DeletePropagationBackground
		_ = to.Delete(ctx, o.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: uidPrecondition(uid)})
	case fault.KindLabel:
		_, _ = to.Patch(ctx, o.Name, types.MergePatchType, metadataPatch(uid, map[string]any{"labels": map[string]any{"rehearse-k8s.github.io/touched": "yes"}}), metav1.PatchOptions{})
	case fault.KindFinalizer:
		r.addFinalizer(ctx, f, to, o.Name, uid)
	}
}

// addFinalizer adds the interference finalizer to an object for the time of a fault. In every case, the end
// of the run removes it.
func (r *run) addFinalizer(ctx context.Context, f fault.Fault, to dynamic.ResourceInterface, name string, uid types.UID) {
	// A request without an answer may have been carried out.
	r.mu.Lock()
	r.finalized = append(r.finalized, finalized{to, name, uid})
	r.mu.Unlock()
	if setFinalizer(ctx, to, name, uid, true) == nil {
		r.afterFault(f, func() { _ = setFinalizer(ctx, to, name, uid, false) })
	}
}

// finalized is an object to which a fault has added the interference finalizer.
type finalized struct {
	to   dynamic.ResourceInterface
	name string
	uid  types.UID
}

// removeFinalizers removes the interference finalizer from every object to which a fault has added it.
func (r *run) removeFinalizers() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), r.harness.timeouts.restore)
	defer cancel()
	for _, o := range r.finalized {
		_ = setFinalizer(ctx, o.to, o.name, o.uid, false) // the restore that follows reports what remains
	}
}

// uidPrecondition returns the precondition that an object has a UID, or nil if the UID is not known.
func uidPrecondition(uid types.UID) *metav1.Preconditions {
	if uid == "" {
		return nil
	}
	return &metav1.Preconditions{UID: &uid}
}

// metadataPatch returns a merge patch of metadata. If the UID is known, the patch applies only to that
// object.
func metadataPatch(uid types.UID, metadata map[string]any) []byte {
	if uid != "" {
		metadata["uid"] = string(uid)
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings and lists of strings can be encoded
	}
	return patch
}

func (r *run) evict(ctx context.Context, to dynamic.ResourceInterface, o history.Object) {
	if o.Resource != "pods" {
		return
	}
	u, err := toUnstructured(&policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}, DeleteOptions: &metav1.DeleteOptions{Preconditions: uidPrecondition(types.UID(o.UID))},
	})
	if err == nil {
		_, _ = to.Create(ctx, u, metav1.CreateOptions{}, "eviction")
	}
}

// isFinishedPod reports whether an object is a pod in a final phase.
func (r *run) isFinishedPod(ctx context.Context, to dynamic.ResourceInterface, o history.Object) bool {
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

// setFinalizer adds or removes the interference finalizer of an object and keeps the others. If a UID is
// given, it changes only the object with that UID.
func setFinalizer(ctx context.Context, to dynamic.ResourceInterface, name string, uid types.UID, there bool) error {
	var err error
	for range 5 { // another user may write the object in between
		var u *unstructured.Unstructured
		if u, err = to.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if uid != "" && u.GetUID() != uid || slices.Contains(u.GetFinalizers(), fault.InterferenceFinalizer) == there {
			return nil
		}
		finalizers := slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == fault.InterferenceFinalizer })
		if there {
			finalizers = append(finalizers, fault.InterferenceFinalizer)
		}
		patch := metadataPatch(uid, map[string]any{"finalizers": append([]string{}, finalizers...), "resourceVersion": u.GetResourceVersion()})
		if _, err = to.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}
