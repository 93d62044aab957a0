package clonesets

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/api/apps"
	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
	"github.com/rehearse-k8s/rehearse/workload/cloneset"
)

// The indexes of the caches of pods, claims and revisions.
const (
	// byOwner is the UID of the CloneSet that controls an object.
	byOwner = "owner"
	// byNobody is the namespace of an object without a controller.
	byNobody = "nobody"
)

func isSet(ref *metav1.OwnerReference) bool {
	return ref.Kind == v1alpha1.Kind && strings.HasPrefix(ref.APIVersion, apps.GroupName+"/")
}

// watch has a set looked at when something changes that a plan of it could see.
func (c *instance) watch() error {
	sets := c.caches[setsResource]
	_, err := sets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.seeSet, DeleteFunc: c.seeSet,
		UpdateFunc: func(old, now any) {
			if old.(*v1alpha1.CloneSet).UID != now.(*v1alpha1.CloneSet).UID { // deleted and made again in between
				c.seeSet(old)
			}
			c.seeSet(now)
		},
	})
	indexes := cache.Indexers{
		byOwner: func(obj any) ([]string, error) {
			if ref := metav1.GetControllerOfNoCopy(obj.(metav1.Object)); ref != nil && isSet(ref) {
				return []string{string(ref.UID)}, nil
			}
			return nil, nil
		},
		byNobody: func(obj any) ([]string, error) {
			if o := obj.(metav1.Object); metav1.GetControllerOfNoCopy(o) == nil {
				return []string{o.GetNamespace()}, nil
			}
			return nil, nil
		},
	}
	for resource, same := range map[string]func(old, now any) bool{
		podsResource: func(old, now any) bool {
			return cloneset.View(old.(*corev1.Pod)).Same(cloneset.View(now.(*corev1.Pod)))
		},
		claimsResource: func(old, now any) bool {
			return cloneset.ViewClaim(old.(*corev1.PersistentVolumeClaim)).Same(cloneset.ViewClaim(now.(*corev1.PersistentVolumeClaim)))
		},
		revisionsResource: func(old, now any) bool {
			return old.(*appsv1.ControllerRevision).Revision == now.(*appsv1.ControllerRevision).Revision
		},
	} {
		if err == nil {
			err = c.caches[resource].AddIndexers(indexes)
		}
		if err == nil {
			_, err = c.caches[resource].AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: c.see, DeleteFunc: c.see,
				UpdateFunc: func(old, now any) {
					was, is := c.keysOf(old), c.keysOf(now)
					if len(was) == 0 && len(is) == 0 {
						return
					}
					if len(was) != len(is) || len(is) > 0 && was[0] != is[0] {
						c.see(old)
					} else if same(old, now) {
						return
					}
					c.see(now)
				},
			})
		}
	}
	return err
}

func (c *instance) seeSet(obj any) {
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

func (c *instance) see(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	for _, k := range c.keysOf(obj) {
		if pause := c.memories.Pause(k); pause > 0 {
			c.queue.AddAfter(k, pause)
		} else {
			c.queue.Add(k)
		}
	}
}

// keysOf are the sets that an object matters to: the one that controls it, or those that
// may adopt it.
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
	switch obj.(type) {
	case *corev1.Pod, *appsv1.ControllerRevision:
	default:
		return nil
	}
	if len(o.GetLabels()) == 0 {
		return nil
	}
	sets, _ := c.caches[setsResource].GetIndexer().ByIndex(cache.NamespaceIndex, o.GetNamespace())
	for _, found := range sets {
		set := found.(*v1alpha1.CloneSet)
		if match, err := cloneset.Matcher(set); err == nil && match(o.GetLabels()) {
			keys = append(keys, keyOf(set))
		}
	}
	return keys
}
