package live

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/store"
)

const (
	// restoring is how long a cluster may take to be as it was before.
	restoring = time.Minute
	// restored is how long it has to stay so.
	restored = 300 * time.Millisecond
)

// restore brings the cluster back to what it was before the first run.
func (g *borrowed) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoring)
	defer cancel()
	asked := map[types.UID]time.Time{} // when what is too much was deleted
	for {
		held, moved, err := g.mirror.snapshot()
		if err != nil {
			return err
		}
		left, err := g.restoreOnce(ctx, held, asked)
		if err != nil {
			return err
		}
		wait := 200 * time.Millisecond // finalizers are looked at again
		if len(left) == 0 {
			wait = restored
		}
		quiet := time.NewTimer(wait)
		select {
		case <-moved:
		case <-quiet.C:
			if len(left) == 0 {
				return nil
			}
		case <-ctx.Done():
			quiet.Stop()
			if len(left) == 0 {
				return ctx.Err()
			}
			left = left[:min(len(left), 5)]
			return fmt.Errorf("the cluster could not be brought back to what it was: %s: %w", strings.Join(left, ", "), ctx.Err())
		}
		quiet.Stop()
	}
}

// restoreOnce does what can be done now, and tells what is left to do.
func (g *borrowed) restoreOnce(ctx context.Context, held map[string]store.KV, asked map[types.UID]time.Time) (left []string, err error) {
	extra, err := g.extra(held)
	if err != nil {
		return nil, err
	}
	there := map[types.UID]bool{}
	for _, o := range extra {
		there[o.GetUID()] = true
	}
	for _, o := range extra {
		left = append(left, o.GetKind()+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")+" is there")
		// What others control goes with them, or after them.
		if owner := metav1.GetControllerOf(o); owner != nil && there[owner.UID] {
			continue
		}
		if err := g.remove(ctx, o, asked); err != nil {
			return nil, err
		}
	}
	if len(left) > 0 {
		return left, nil
	}
	for _, key := range slices.Sorted(maps.Keys(g.found)) {
		if !g.hasTouched(key) {
			continue
		}
		done, err := g.putBack(ctx, g.found[key], held[key])
		if err != nil {
			return nil, fmt.Errorf("%s could not be made what it was: %w", strings.TrimPrefix(key, "/"), err)
		}
		if !done {
			left = append(left, strings.TrimPrefix(key, "/")+" is not what it was")
		}
	}
	return left, nil
}

func (g *borrowed) hasTouched(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.touched[key]
}

// extra is what was not there before: all in the namespaces of the scenario, and elsewhere
// what a client or a user has written.
func (g *borrowed) extra(held map[string]store.KV) (all []*unstructured.Unstructured, err error) {
	for _, key := range slices.Sorted(maps.Keys(held)) {
		if was, there := g.found[key]; there && sameObject(was, held[key]) {
			continue
		}
		o, _, err := g.object(held[key])
		if err != nil {
			return nil, err
		}
		if (g.namespaces[o.GetNamespace()] || g.hasTouched(key)) && !ofEveryNamespace(o) {
			all = append(all, o)
		}
	}
	return all, nil
}

// ofEveryNamespace tells what each namespace has, and gets again.
func ofEveryNamespace(o *unstructured.Unstructured) bool {
	return o.GetKind() == "ServiceAccount" && o.GetName() == "default" || o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt"
}

// sameObject tells whether an object is still the one that it was, and not one of the same
// name that was made since.
func sameObject(a, b store.KV) bool {
	uid := func(kv store.KV) (m struct{ Metadata struct{ UID types.UID } }) {
		_ = json.Unmarshal(kv.Value, &m)
		return m
	}
	return uid(a) == uid(b)
}

// remove deletes an object, and takes what nobody will take any more off one that clings.
func (g *borrowed) remove(ctx context.Context, o *unstructured.Unstructured, asked map[types.UID]time.Time) error {
	to, err := resourceFor(g.client, g.arena.mapper, o)
	if err != nil {
		return err
	}
	uid := o.GetUID()
	when, before := asked[uid]
	switch {
	case !before:
		asked[uid] = time.Now()
		err = deleteWithin(ctx, to, o, 1)
	case o.GetDeletionTimestamp() != nil && time.Since(when) > g.arena.lengths.clinging:
		asked[uid] = time.Now()
		if err = letGo(ctx, to, o); err == nil {
			err = deleteWithin(ctx, to, o, 0) // a pod whose kubelet does not answer
		}
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the mirror will tell
	}
	return err
}

// deleteWithin deletes an object, and if it is a pod, within some seconds.
func deleteWithin(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured, seconds int64) error {
	uid, background := o.GetUID(), metav1.DeletePropagationBackground
	return to.Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &seconds, PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}})
}

// ofTheCluster are finalizers whose controllers a cluster has: what they guard may be
// something outside of it.
func ofTheCluster(finalizer string) bool {
	domain, _, _ := strings.Cut(finalizer, "/")
	return finalizer == metav1.FinalizerDeleteDependents || finalizer == metav1.FinalizerOrphanDependents || finalizer == "kubernetes" ||
		finalizer != "batch.kubernetes.io/job-tracking" && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"))
}

// letGo takes the finalizers of an object away, but for those of the cluster.
func letGo(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	keep := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return !ofTheCluster(f) })
	if len(keep) == len(o.GetFinalizers()) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": append([]string{}, keep...), "resourceVersion": o.GetResourceVersion()}})
	if err != nil {
		return err
	}
	_, err = to.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// putBack makes an object what it was, and tells whether it is that already. now is empty if
// it is gone.
func (g *borrowed) putBack(ctx context.Context, was, now store.KV) (bool, error) {
	want, to, err := g.object(was)
	if err != nil {
		return false, err
	}
	if now.Value == nil {
		want.SetUID("")
		want.SetResourceVersion("")
		made, err := to.Create(ctx, withoutServerFields(want), metav1.CreateOptions{FieldManager: "rehearse"})
		if err == nil {
			g.found[was.Key], err = g.takenFor(was, made)
		}
		return false, err
	}
	have, _, err := g.object(now)
	if err != nil || asWritten(want, have) {
		return err == nil, err
	}
	want.SetUID(have.GetUID())
	want.SetResourceVersion(have.GetResourceVersion())
	updated, err := to.Update(ctx, want, metav1.UpdateOptions{FieldManager: "rehearse"})
	if err == nil {
		want.SetResourceVersion(updated.GetResourceVersion())
		if _, err = to.UpdateStatus(ctx, want, metav1.UpdateOptions{FieldManager: "rehearse"}); apierrors.IsNotFound(err) {
			err = nil // the kind has no status of its own
		}
	}
	if apierrors.IsConflict(err) {
		err = nil // once more, with what the mirror tells then
	}
	return false, err
}

// takenFor is what was found before, with the identity of the object that has taken its place.
func (g *borrowed) takenFor(was store.KV, made *unstructured.Unstructured) (store.KV, error) {
	o, _, err := g.object(was)
	if err != nil {
		return was, err
	}
	o.SetUID(made.GetUID())
	was.Value, err = o.MarshalJSON()
	return was, err
}

// asWritten tells whether two states of an object differ in nothing that anybody wrote.
func asWritten(a, b *unstructured.Unstructured) bool {
	bare := func(o *unstructured.Unstructured) map[string]any {
		o = withoutServerFields(o)
		for _, field := range []string{"uid", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(o.Object, "status", "observedGeneration")
		return o.Object
	}
	return reflect.DeepEqual(bare(a), bare(b))
}
