package clonesets

import (
	"maps"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// The indexes of the caches.
const (
	// byOwner of pods, claims and revisions is the UID of the CloneSet that controls an object.
	byOwner = "owner"
	// byNobody of pods and revisions is the namespace of an object without a controller.
	byNobody = "nobody"
	// byFormer of claims without a controller are the CloneSets that may have given them their
	// names, as namespace/name.
	byFormer = "former"
	// bySelector of CloneSets is a label that the selector requires, as namespace/key=value, or
	// namespace/ where it requires none.
	bySelector = "selector"
)

func isSet(ref *metav1.OwnerReference) bool {
	return ref.Kind == v1alpha1.Kind && strings.HasPrefix(ref.APIVersion, kruise.GroupName+"/")
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
	if err == nil {
		err = sets.AddIndexers(cache.Indexers{bySelector: selectorIndex})
	}
	for resource, indexes := range map[string]cache.Indexers{
		podsResource:      {byOwner: ownerIndex, byNobody: nobodyIndex},
		claimsResource:    {byOwner: ownerIndex, byFormer: formerIndex},
		revisionsResource: {byOwner: ownerIndex, byNobody: nobodyIndex},
	} {
		if err == nil {
			err = c.caches[resource].AddIndexers(indexes)
		}
		if err == nil {
			_, err = c.caches[resource].AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.see, DeleteFunc: c.see, UpdateFunc: c.seeUpdate})
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

func nobodyIndex(obj any) ([]string, error) {
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

// selectorIndex chooses the label that tells a CloneSet from others most likely: one with the name of the
// set, else the one with the longest value. A set whose selector cannot be read adopts nothing.
func selectorIndex(obj any) ([]string, error) {
	set := obj.(*v1alpha1.CloneSet)
	if _, err := cloneset.Matcher(set); err != nil {
		return nil, nil
	}
	best, found := "", -1
	for _, key := range slices.Sorted(maps.Keys(set.Spec.Selector.MatchLabels)) {
		value := set.Spec.Selector.MatchLabels[key]
		worth := len(value)
		if value == set.Name {
			worth = math.MaxInt
		}
		if worth > found {
			best, found = key+"="+value, worth
		}
	}
	return []string{set.Namespace + "/" + best}, nil
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
		c.add(k)
	}
}

// seeUpdate has the sets looked at to which an object matters now, unless none of their plans could tell
// a difference, and those to which it mattered before.
func (c *instance) seeUpdate(old, now any) {
	was, is := c.keysOf(old), c.keysOf(now)
	if slices.Equal(was, is) {
		if len(is) > 0 && !same(old, now) {
			c.see(now)
		}
		return
	}
	for _, k := range was {
		if !slices.Contains(is, k) {
			c.add(k)
		}
	}
	c.see(now)
}

// same tells whether no plan can see a difference between two versions of an object. Of revisions a
// plan sees everything but who manages which field.
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

// keysOf are the sets that an object matters to, by name: the one that controls it, or those that
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
	sets := c.caches[setsResource].GetIndexer()
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
		for _, name := range cloneset.ViewClaim(claim).ClaimedBy() {
			if set := cached[v1alpha1.CloneSet](c, setsResource, claim.Namespace, name); set != nil {
				keys = append(keys, keyOf(set))
			}
		}
		return keys
	}
	consider := func(label string) {
		found, _ := sets.ByIndex(bySelector, o.GetNamespace()+"/"+label)
		for _, obj := range found {
			set := obj.(*v1alpha1.CloneSet)
			if match, err := cloneset.Matcher(set); err == nil && match(o.GetLabels()) {
				keys = append(keys, keyOf(set))
			}
		}
	}
	consider("")
	for key, value := range o.GetLabels() {
		consider(key + "=" + value)
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.name, b.name) })
	return keys
}
