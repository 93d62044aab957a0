package clonesets

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// The indexes of the caches.
const (
	// byOwner indexes pods, claims and revisions by the UID of the CloneSet that controls them.
	byOwner = "owner"
	// orphaned indexes pods and revisions without a controller by namespace.
	orphaned = "orphaned"
	// byFormer indexes claims without a controller by the CloneSets that may have created them, according to
	// their names, as namespace/name.
	byFormer = "former"
	// bySelector indexes CloneSets by a label that their selector requires (reconcile.SelectorKey).
	bySelector = "selector"
)

func isSet(ref *metav1.OwnerReference) bool {
	return ref.Kind == v1alpha1.Kind && strings.HasPrefix(ref.APIVersion, kruise.GroupName+"/")
}

// watch registers handlers that queue a CloneSet when something changes that its plan reads.
func (c *instance) watch() error {
	sets := c.caches[setsResource]
	_, err := sets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueueSet, DeleteFunc: c.enqueueSet,
		UpdateFunc: func(old, now any) {
			if old.(*v1alpha1.CloneSet).UID != now.(*v1alpha1.CloneSet).UID { // deleted and created again
				c.enqueueSet(old)
			}
			c.enqueueSet(now)
		},
	})
	if err == nil {
		err = sets.AddIndexers(cache.Indexers{bySelector: selectorIndex})
	}
	for resource, indexes := range map[string]cache.Indexers{
		podsResource:      {byOwner: ownerIndex, orphaned: orphanIndex},
		claimsResource:    {byOwner: ownerIndex, byFormer: formerIndex},
		revisionsResource: {byOwner: ownerIndex, orphaned: orphanIndex},
	} {
		if err == nil {
			err = c.caches[resource].AddIndexers(indexes)
		}
		if err == nil {
			_, err = c.caches[resource].AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.enqueue, DeleteFunc: c.enqueue, UpdateFunc: c.enqueueUpdate})
		}
	}
	return err
}

func ownerIndex(obj any) ([]string, error) {
	if ref := metav1.GetControllerOfNoCopy(obj.(metav1.Object)); ref != nil && isSet(ref) {
		return []string{string(ref.UID)}, nil
	}
	return nil, nil
}

func orphanIndex(obj any) ([]string, error) {
	if o := obj.(metav1.Object); metav1.GetControllerOfNoCopy(o) == nil {
		return []string{o.GetNamespace()}, nil
	}
	return nil, nil
}

func formerIndex(obj any) (keys []string, err error) {
	claim := cloneset.ViewClaim(obj.(*corev1.PersistentVolumeClaim))
	if claim.Controller == "" {
		for _, name := range claim.ClaimedBy() {
			keys = append(keys, claim.Namespace+"/"+name)
		}
	}
	return keys, nil
}

// selectorIndex is the index bySelector. A CloneSet with an invalid selector adopts nothing.
func selectorIndex(obj any) ([]string, error) {
	set := obj.(*v1alpha1.CloneSet)
	if _, err := cloneset.Matcher(set); err != nil {
		return nil, nil
	}
	return []string{reconcile.SelectorKey(set, set.Spec.Selector)}, nil
}

func (c *instance) enqueueSet(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	if set, ok := obj.(*v1alpha1.CloneSet); ok {
		c.haveSet.Do(func() { close(c.anySet) })
		c.queue.Add(keyOf(set))
	}
}

func keyOf(set *v1alpha1.CloneSet) key {
	return key{namespace: set.Namespace, name: set.Name, uid: set.UID}
}

func (c *instance) enqueue(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	for _, k := range c.keysOf(obj) {
		c.add(k)
	}
}

// enqueueUpdate queues the CloneSets that an object belongs to now, unless their plans read nothing that has
// changed, and those that it belonged to before.
func (c *instance) enqueueUpdate(old, now any) {
	before, after := c.keysOf(old), c.keysOf(now)
	if slices.Equal(before, after) {
		if len(after) > 0 && !same(old, now) {
			c.enqueue(now)
		}
		return
	}
	for _, k := range before {
		if !slices.Contains(after, k) {
			c.add(k)
		}
	}
	c.enqueue(now)
}

// same reports whether a plan reads the same from two versions of an object. Of a revision it reads
// everything but resourceVersion and managed fields.
func same(old, now any) bool {
	switch now := now.(type) {
	case *corev1.Pod:
		return cloneset.View(old.(*corev1.Pod)).Same(cloneset.View(now))
	case *corev1.PersistentVolumeClaim:
		return cloneset.ViewClaim(old.(*corev1.PersistentVolumeClaim)).Same(cloneset.ViewClaim(now))
	case *appsv1.ControllerRevision:
		a, b := *old.(*appsv1.ControllerRevision), *now
		for _, o := range []*appsv1.ControllerRevision{&a, &b} {
			o.ResourceVersion, o.ManagedFields = "", nil
		}
		return equality.Semantic.DeepEqual(a, b)
	}
	return false
}

func (c *instance) add(k key) {
	if pause := c.memories.Pause(k); pause > 0 {
		c.queue.AddAfter(k, pause)
	} else {
		c.queue.Add(k)
	}
}

// keysOf returns the CloneSets that an object belongs to, sorted by name: the one that controls it, or those
// that may adopt it.
func (c *instance) keysOf(obj any) (keys []key) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		if isSet(ref) {
			return []key{{namespace: o.GetNamespace(), name: ref.Name, uid: ref.UID}}
		}
		return nil
	}
	sets := c.caches[setsResource].GetIndexer()
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
		for _, name := range cloneset.ViewClaim(claim).ClaimedBy() {
			if set := cached[v1alpha1.CloneSet](c, setsResource, claim.Namespace, name); set != nil {
				keys = append(keys, keyOf(set))
			}
		}
		return keys
	}
	for _, label := range reconcile.SelectorKeys(o) {
		found, _ := sets.ByIndex(bySelector, label)
		for _, obj := range found {
			set := obj.(*v1alpha1.CloneSet)
			if match, err := cloneset.Matcher(set); err == nil && match(o.GetLabels()) {
				keys = append(keys, keyOf(set))
			}
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.name, b.name) })
	return keys
}
