package rehearsal

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

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// stableTime is how long the cluster must stay in its initial state before a restore is complete.
const stableTime = 300 * time.Millisecond

// removals records the objects that one restore has deleted.
type removals struct {
	deletedAt map[types.UID]time.Time
	// failed holds the errors of the last attempts.
	failed map[types.UID]error
	uids   map[string]types.UID
}

// restore restores the cluster to its state before the first run.
func (g *externalCluster) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.harness.timeouts.restore)
	defer cancel()
	asked := &removals{deletedAt: map[types.UID]time.Time{}, failed: map[types.UID]error{}, uids: map[string]types.UID{}}
	stamp, since := int64(-1), time.Now()
	if err := g.removeLeases(ctx); err != nil {
		return fmt.Errorf("restore the cluster: %w", err)
	}
	for {
		held, moved, err := g.mirror.snapshot()
		if err != nil {
			return fmt.Errorf("restore the cluster: %w", err)
		}
		left := g.restoreOnce(ctx, held, asked)
		if ctx.Err() != nil {
			return g.notRestored(left, ctx.Err())
		}
		if now := g.revisionSum(held); now != stamp || len(left) > 0 {
			stamp, since = now, time.Now()
		}
		if time.Since(since) >= stableTime {
			clear(g.written)
			return nil
		}
		next := time.NewTimer(stableTime / 3)
		select {
		case <-moved:
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return g.notRestored(left, ctx.Err())
		}
		next.Stop()
	}
}

// notRestored returns the error of a restore that timed out, with the objects that remain.
func (g *externalCluster) notRestored(left []string, err error) error {
	if len(left) == 0 {
		left = []string{"objects still change in the namespaces of the scenario"}
	}
	return fmt.Errorf("restore the cluster: %s: %w", strings.Join(left[:min(len(left), 10)], ", "), err)
}

// revisionSum changes with every write in the namespaces of the scenario.
func (g *externalCluster) revisionSum(held map[string]store.KV) (stamp int64) {
	for key, kv := range held {
		if g.namespaces[namespaceOf(key)] {
			stamp += kv.ModRevision // a revision is never used twice
		}
	}
	return stamp
}

// restoreOnce does what is possible in the current state, and returns what remains to do. An error of one
// object does not prevent the others from being restored.
func (g *externalCluster) restoreOnce(ctx context.Context, held map[string]store.KV, asked *removals) (left []string) {
	waiting, left := g.revertAll(ctx, held)
	extra, err := g.unexpectedObjects(held, asked)
	if err != nil {
		return append(left, err.Error())
	}
	there := map[types.UID]bool{}
	for _, o := range extra {
		there[o.GetUID()] = true
	}
	keepOwners(waiting, extra)
	for _, o := range extra {
		text := strings.TrimPrefix(o.GetNamespace()+"/", "/") + describe(o) + " still exists"
		// The garbage collector deletes an object that has a controller. An owner is deleted only after its
		// dependents have their original owners back: otherwise they would be deleted with it.
		if owner := metav1.GetControllerOf(o); !waiting[o.GetUID()] && (owner == nil || !there[owner.UID]) {
			if err := g.deleteObject(ctx, o, asked); err != nil {
				text += ": " + err.Error()
			}
		}
		left = append(left, text)
	}
	if len(left) > 0 { // recreate objects only when nothing unexpected exists: names and quotas are free then
		return left
	}
	for i := range g.initial {
		key := g.initial[i].key
		_, is := held[key]
		_, touched := g.written[key]
		if g.initial[i].definition || g.initialState[key].Value == nil || is && !touched {
			continue
		}
		text := strings.TrimPrefix(key, "/") + " differs from its initial state"
		if err := g.restoreObject(ctx, key, held[key], asked); err != nil {
			text += ": " + err.Error()
		}
		left = append(left, text)
	}
	return left
}

// revertAll reverts what clients and users have written into objects that the harness did not create. It
// returns the current owners of the objects that are not reverted yet, and what remains to do.
func (g *externalCluster) revertAll(ctx context.Context, held map[string]store.KV) (owners map[types.UID]bool, left []string) {
	owners = map[types.UID]bool{}
	for _, key := range slices.Sorted(maps.Keys(g.written)) {
		if g.isInitial(key) {
			continue
		}
		is, done, err := g.revertObject(ctx, key, held[key])
		switch {
		case err != nil:
			left = append(left, fmt.Sprintf("%s still contains writes of the run: %v", strings.TrimPrefix(key, "/"), err))
		case !done:
			left = append(left, strings.TrimPrefix(key, "/")+" still contains writes of the run")
		default:
			continue
		}
		if is != nil {
			for _, owner := range is.GetOwnerReferences() {
				owners[owner.UID] = true
			}
		}
	}
	return owners, left
}

// keepOwners adds the owners of the objects that are waited for.
func keepOwners(waiting map[types.UID]bool, extra []*unstructured.Unstructured) {
	for more := len(waiting) > 0; more; {
		more = false
		for _, o := range extra {
			for _, owner := range o.GetOwnerReferences() {
				if waiting[o.GetUID()] && !waiting[owner.UID] {
					waiting[owner.UID], more = true, true
				}
			}
		}
	}
}

// revertObject reverts what clients and users have written into one object. done: nothing of that remains.
// now is empty if the object does not exist.
func (g *externalCluster) revertObject(ctx context.Context, key string, now store.KV) (is *unstructured.Unstructured, done bool, err error) {
	if now.Value == nil {
		return nil, true, g.recreate(ctx, key)
	}
	if is, err = objectOf(now); err != nil {
		return nil, false, err
	}
	if uidOf(g.initialState[key]) != is.GetUID() && (g.created.has(is.GetUID()) || g.namespaces[is.GetNamespace()]) {
		return is, true, nil // deleteObject deletes it
	}
	want := &unstructured.Unstructured{Object: revert(writesOf(g.written[key], is.GetUID()), is.Object)}
	if reflect.DeepEqual(want.Object, is.Object) {
		return is, true, nil
	}
	to, err := resourceFor(g.client, g.harness.mapper, is)
	if err != nil {
		return is, false, err
	}
	_, err = to.Update(ctx, want, metav1.UpdateOptions{FieldManager: "rehearse"})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = nil // retry with the next state that the mirror observes
	}
	return is, false, err
}

// writesOf returns the writes of the object with a UID. Earlier objects may have had the same name.
func writesOf(writes []write, uid types.UID) []write {
	return slices.DeleteFunc(slices.Clone(writes), func(w write) bool {
		return !slices.ContainsFunc([]map[string]any{w.was, w.is}, func(o map[string]any) bool {
			return o != nil && (&unstructured.Unstructured{Object: o}).GetUID() == uid
		})
	})
}

// recreate creates an object again that existed before a run, if the run deleted it, or gave it an owner and
// so had it deleted. What others have deleted stays deleted.
func (g *externalCluster) recreate(ctx context.Context, key string) error {
	all := g.written[key]
	if len(all) == 0 {
		return nil
	}
	last := all[len(all)-1]
	state := last.was
	if last.is != nil {
		state = last.is
	}
	if state == nil {
		return nil
	}
	o := &unstructured.Unstructured{Object: state}
	writes := writesOf(all, o.GetUID())
	owners := slices.ContainsFunc(writes, func(w write) bool {
		return w.is != nil && len((&unstructured.Unstructured{Object: w.is}).GetOwnerReferences()) > len((&unstructured.Unstructured{Object: w.was}).GetOwnerReferences())
	})
	if writes[0].was == nil || g.created.has(o.GetUID()) || last.is != nil && !owners {
		return nil
	}
	o = &unstructured.Unstructured{Object: revert(writes, state)}
	to, err := resourceFor(g.client, g.harness.mapper, o)
	if err != nil {
		return err
	}
	if _, err = to.Create(ctx, asNew(o), metav1.CreateOptions{FieldManager: "rehearse"}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	delete(g.written, key)
	return nil
}

// unexpectedObjects returns the objects that did not exist initially: those that clients and users created,
// and all others in the namespaces of the scenario, except dependents of unchanged initial objects.
func (g *externalCluster) unexpectedObjects(held map[string]store.KV, asked *removals) (all []*unstructured.Unstructured, err error) {
	var fresh []*unstructured.Unstructured
	begun := map[types.UID]bool{} // unchanged initial objects and their dependents
	for _, key := range slices.Sorted(maps.Keys(held)) {
		_, touched := g.written[key]
		if !g.namespaces[namespaceOf(key)] && !touched && !g.isInitial(key) {
			continue // a cluster may hold very many objects, and this runs at each change
		}
		kv := held[key]
		o, err := objectOf(kv)
		if err != nil {
			return nil, err
		}
		was, there := g.initialState[key]
		switch {
		case there && uidOf(was) == o.GetUID():
			begun[o.GetUID()] = !touched
		case g.created.has(o.GetUID()):
			all = append(all, o)
		case !g.namespaces[o.GetNamespace()] || isNamespaceDefault(o):
		case asked.isReplacement(key, o.GetUID()):
			g.initialState[key] = kv // a controller recreated it at once and would do so again and again
		default:
			fresh = append(fresh, o)
		}
	}
	for again := true; again; {
		again = false
		fresh = slices.DeleteFunc(fresh, func(o *unstructured.Unstructured) bool {
			owner := metav1.GetControllerOf(o)
			if owner == nil || !begun[owner.UID] {
				return false
			}
			begun[o.GetUID()], again = true, true
			return true
		})
	}
	return append(all, fresh...), nil
}

// isReplacement reports whether this restore deleted another object under the same key.
func (r *removals) isReplacement(key string, uid types.UID) bool {
	deleted, ok := r.uids[key]
	return ok && deleted != uid
}

// deleteObject deletes an object. If it is still there after timeouts.finalizer, it removes the finalizers
// that no controller will remove, or sends the request again: the first one may have failed. It returns the
// error of the last attempt.
func (g *externalCluster) deleteObject(ctx context.Context, o *unstructured.Unstructured, asked *removals) error {
	kind := o.GroupVersionKind()
	m, err := g.harness.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	to := resourceIn(g.client, m.Resource, o.GetNamespace() != "", o.GetNamespace())
	uid := o.GetUID()
	when, before := asked.deletedAt[uid]
	if before && time.Since(when) <= g.harness.timeouts.finalizer {
		return asked.failed[uid]
	}
	grace := int64(1)
	if before && o.GetDeletionTimestamp() != nil {
		grace = 0 // for a pod whose kubelet does not answer
		err = g.removeFinalizers(ctx, to, o)
	}
	if err == nil {
		err = deleteWithin(ctx, to, o, grace)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // the mirror will observe it
	}
	asked.deletedAt[uid], asked.failed[uid] = time.Now(), err
	asked.uids[keyOf(m.Resource.GroupResource(), o.GetNamespace(), o.GetName())] = uid
	return err
}

// deleteWithin deletes an object with a grace period in seconds.
func deleteWithin(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured, seconds int64) error {
	uid, background := o.GetUID(), metav1.DeletePropagationBackground
	return to.Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &seconds, PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}})
}

// removeFinalizers removes those finalizers that clients and users of runs have added: their controllers no
// longer run. The finalizers of others may protect something outside of the cluster.
func (g *externalCluster) removeFinalizers(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	keep := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return g.runFinalizers[f] })
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

// restoreObject deletes an initial object that was changed, so that it is recreated without what others have
// written into its status. If it is gone (now is empty), restoreObject recreates it.
func (g *externalCluster) restoreObject(ctx context.Context, key string, now store.KV, asked *removals) error {
	want, to, err := g.decode(g.initialState[key])
	if err != nil {
		return err
	}
	if now.Value == nil {
		return g.recreateObject(ctx, key, want, to)
	}
	have, err := objectOf(now)
	if err != nil {
		return err
	}
	if want.GetUID() != have.GetUID() {
		delete(g.written, key) // another user recreated it, so it is theirs
		return nil
	}
	return g.deleteObject(ctx, have, asked)
}

// asNew returns an object in the form in which it is created.
func asNew(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = withoutServerFields(o)
	for _, field := range serverFields {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	return o
}

// recreateObject creates an object that is gone, and records the UID of the new one.
func (g *externalCluster) recreateObject(ctx context.Context, key string, want *unstructured.Unstructured, to dynamic.ResourceInterface) error {
	made, err := to.Create(ctx, asNew(want), metav1.CreateOptions{FieldManager: "rehearse"})
	if apierrors.IsAlreadyExists(err) {
		return nil // the mirror will observe it
	}
	if err != nil {
		return err
	}
	delete(g.written, key)
	g.created.add(key, made.GetUID())
	for i := range g.initial {
		if g.initial[i].key == key {
			g.initial[i].uid = made.GetUID()
		}
	}
	want.SetUID(made.GetUID())
	was := g.initialState[key]
	was.Value, err = want.MarshalJSON()
	g.initialState[key] = was
	return err
}
