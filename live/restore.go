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

// restored is how long a cluster has to stay as it was before.
const restored = 300 * time.Millisecond

// removal is what was asked to be deleted in one restore.
type removal struct {
	when map[types.UID]time.Time
	keys map[string]types.UID
}

// restore brings the cluster back to what it was before the first run.
func (g *borrowed) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.arena.lengths.restoring)
	defer cancel()
	asked := &removal{when: map[types.UID]time.Time{}, keys: map[string]types.UID{}}
	stamp, since := int64(-1), time.Now()
	for {
		held, moved, err := g.mirror.snapshot()
		if err != nil {
			return fmt.Errorf("the cluster could not be brought back to what it was: %w", err)
		}
		left, err := g.restoreOnce(ctx, held, asked)
		if ctx.Err() != nil {
			return g.notRestored(left, ctx.Err())
		}
		if err != nil {
			return err
		}
		if now := g.stamp(held); now != stamp || len(left) > 0 {
			stamp, since = now, time.Now()
		}
		if time.Since(since) >= restored {
			clear(g.touched)
			return nil
		}
		next := time.NewTimer(restored / 3)
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

// notRestored says what there is left to do, when there is no time left.
func (g *borrowed) notRestored(left []string, err error) error {
	if len(left) == 0 {
		left = []string{"something still happens in the namespaces of the scenario"}
	}
	return fmt.Errorf("the cluster could not be brought back to what it was: %s: %w", strings.Join(left[:min(len(left), 10)], ", "), err)
}

// stamp changes with anything that happens in the namespaces of the scenario.
func (g *borrowed) stamp(held map[string]store.KV) (stamp int64) {
	for key, kv := range held {
		if g.namespaces[namespaceOf(key)] {
			stamp += kv.ModRevision // revisions are never used twice
		}
	}
	return stamp
}

// restoreOnce does what can be done now, and tells what is left to do.
func (g *borrowed) restoreOnce(ctx context.Context, held map[string]store.KV, asked *removal) (left []string, err error) {
	extra, err := g.extra(held, asked)
	if err != nil {
		return nil, err
	}
	there := map[types.UID]bool{}
	for _, o := range extra {
		there[o.GetUID()] = true
	}
	for _, o := range extra {
		left = append(left, strings.TrimPrefix(o.GetNamespace()+"/", "/")+describe(o)+" is there")
	}
	for _, o := range extra {
		// What others control goes with them, or after them.
		if owner := metav1.GetControllerOf(o); owner != nil && there[owner.UID] {
			continue
		}
		if err := g.remove(ctx, o, asked); err != nil {
			return left, err
		}
	}
	toGo := len(left) > 0
	for _, key := range slices.Sorted(maps.Keys(g.found)) {
		_, is := held[key]
		if !g.touched[key] && (is || !g.isMade(key)) || toGo && g.isMade(key) { // what is made anew needs the room
			continue
		}
		done, err := g.putBack(ctx, key, held[key], asked)
		if err != nil {
			return left, fmt.Errorf("%s could not be made what it was: %w", strings.TrimPrefix(key, "/"), err)
		}
		if !done {
			left = append(left, strings.TrimPrefix(key, "/")+" is not what it was")
		}
	}
	return left, nil
}

// extra is what was not there before: what clients and users have made, and all else in the
// namespaces of the scenario, but for what follows from objects of the beginning.
func (g *borrowed) extra(held map[string]store.KV, asked *removal) (all []*unstructured.Unstructured, err error) {
	var fresh []*unstructured.Unstructured
	begun := map[types.UID]bool{} // what no run has touched, and what follows from it
	for _, key := range slices.Sorted(maps.Keys(held)) {
		if !g.namespaces[namespaceOf(key)] && !g.touched[key] && !g.isMade(key) {
			continue // a cluster may hold very many, and this is done at each change
		}
		kv := held[key]
		o, err := objectOf(kv)
		if err != nil {
			return nil, err
		}
		was, there := g.found[key]
		switch {
		case there && uidOf(was) == o.GetUID():
			begun[o.GetUID()] = !g.touched[key]
		case g.created[o.GetUID()]:
			all = append(all, o)
		case !g.namespaces[o.GetNamespace()] || ofEveryNamespace(o):
		case asked.again(key, o.GetUID()):
			g.found[key] = kv // whoever makes it anew at once would do so for ever
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

// again tells whether another object of the same name was deleted in this restore.
func (r *removal) again(key string, uid types.UID) bool {
	deleted, ok := r.keys[key]
	return ok && deleted != uid
}

// remove deletes an object, and takes what nobody will take any more off one that clings.
func (g *borrowed) remove(ctx context.Context, o *unstructured.Unstructured, asked *removal) error {
	kind := o.GroupVersionKind()
	m, err := g.arena.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	to := resourceIn(g.client, m.Resource, o.GetNamespace() != "", o.GetNamespace())
	uid := o.GetUID()
	when, before := asked.when[uid]
	switch {
	case !before:
		asked.when[uid] = time.Now()
		asked.keys[keyOf(m.Resource.GroupResource(), o.GetNamespace(), o.GetName())] = uid
		err = deleteWithin(ctx, to, o, 1)
	case o.GetDeletionTimestamp() != nil && time.Since(when) > g.arena.lengths.clinging:
		asked.when[uid] = time.Now()
		if err = g.letGo(ctx, to, o); err == nil {
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

// letGo takes those finalizers off an object that clients and users of runs put there: they
// are gone. What others guard with theirs may be outside of the cluster.
func (g *borrowed) letGo(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	keep := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return g.finalizers[f] })
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
// it is gone. What we have made ourselves is made anew, without what others have written
// into its status; of what was there before the status is its controller's.
func (g *borrowed) putBack(ctx context.Context, key string, now store.KV, asked *removal) (bool, error) {
	was := g.found[key]
	want, to, err := g.object(was)
	if err != nil {
		return false, err
	}
	if now.Value == nil {
		return false, g.makeAnew(ctx, key, want, to)
	}
	have, err := objectOf(now)
	if err != nil {
		return false, err
	}
	if want.GetUID() != have.GetUID() {
		return true, nil // somebody else has made it anew: it is theirs
	}
	if g.isMade(key) {
		return false, g.remove(ctx, have, asked)
	}
	if asWritten(want, have) {
		return true, nil
	}
	want.SetResourceVersion(have.GetResourceVersion())
	_, err = to.Update(ctx, want, metav1.UpdateOptions{FieldManager: "rehearse"})
	if apierrors.IsConflict(err) {
		err = nil // once more, with what the mirror tells then
	}
	return false, err
}

// makeAnew creates an object that is gone, and notes who takes its place.
func (g *borrowed) makeAnew(ctx context.Context, key string, want *unstructured.Unstructured, to dynamic.ResourceInterface) error {
	o := withoutServerFields(want)
	for _, field := range []string{"uid", "resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	made, err := to.Create(ctx, o, metav1.CreateOptions{FieldManager: "rehearse"})
	if apierrors.IsAlreadyExists(err) {
		return nil // the mirror will tell
	}
	if err != nil {
		return err
	}
	delete(g.touched, key)
	for i := range g.made {
		if g.made[i].key == key {
			g.made[i].uid = made.GetUID()
		}
	}
	want.SetUID(made.GetUID())
	was := g.found[key]
	was.Value, err = want.MarshalJSON()
	g.found[key] = was
	return err
}

// asWritten tells whether two states of an object differ in nothing that anybody wrote, but for
// the status.
func asWritten(a, b *unstructured.Unstructured) bool {
	bare := func(o *unstructured.Unstructured) map[string]any {
		o = withoutServerFields(o)
		for _, field := range []string{"uid", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(o.Object, "status")
		return o.Object
	}
	return reflect.DeepEqual(bare(a), bare(b))
}
