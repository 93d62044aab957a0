package jobs

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// The indexes of the caches.
const (
	// byOwner indexes pods by the UID of the Job that controls them or, for a pod without a controller, of
	// the Job that its labels name.
	byOwner = "owner"
	// orphaned indexes pods without a controller by namespace. A Job with spec.manualSelector may match any
	// of them, also those whose labels name another Job.
	orphaned = "orphaned"
	// byUID indexes Jobs by UID.
	byUID = "uid"
	// manual indexes Jobs with spec.manualSelector by a label that their selector requires
	// (reconcile.SelectorKey).
	manual = "manual"
)

// watch registers handlers that queue the Jobs of each changed object. No event is filtered out: an
// unnecessary plan is cheap, and a filter that misses an event would stop a Job.
func (c *instance) watch() error {
	err := c.pods.AddIndexers(cache.Indexers{byOwner: ownerIndex, orphaned: orphanIndex})
	if err == nil {
		err = c.jobs.AddIndexers(cache.Indexers{byUID: uidIndex, manual: manualIndex})
	}
	if err == nil {
		_, err = c.jobs.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if j := obj.(*batchv1.Job); !c.options.manages(j) {
					c.metrics.external(j)
				}
				c.enqueueJob(obj)
			},
			DeleteFunc: func(obj any) {
				c.enqueueJob(obj)
				c.enqueueAbandoned(obj)
			},
			UpdateFunc: func(old, now any) {
				if old.(*batchv1.Job).UID != now.(*batchv1.Job).UID { // deleted and created again
					c.enqueueJob(old)
				}
				c.enqueueJob(now)
			},
		})
	}
	if err == nil {
		_, err = c.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: c.enqueuePod, DeleteFunc: c.enqueuePod,
			UpdateFunc: func(old, now any) {
				c.metrics.finalizerChanged(job.FinishedWithFinalizer(old.(*corev1.Pod)), job.FinishedWithFinalizer(now.(*corev1.Pod)))
				if !slices.Equal(c.keysOf(old.(*corev1.Pod)), c.keysOf(now.(*corev1.Pod))) {
					c.enqueuePod(old)
				}
				c.enqueuePod(now)
			},
		})
	}
	return err
}

func ownerIndex(obj any) ([]string, error) {
	pod := obj.(*corev1.Pod)
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if isJob(ref) {
			return []string{string(ref.UID)}, nil
		}
		return nil, nil
	}
	if uid := pod.Labels[batchv1.ControllerUidLabel]; uid != "" {
		return []string{uid}, nil
	}
	return nil, nil
}

func orphanIndex(obj any) ([]string, error) {
	pod := obj.(*corev1.Pod)
	if metav1.GetControllerOfNoCopy(pod) != nil {
		return nil, nil
	}
	return []string{pod.Namespace}, nil
}

func uidIndex(obj any) ([]string, error) { return []string{string(obj.(*batchv1.Job).UID)}, nil }

func manualIndex(obj any) ([]string, error) {
	if j := obj.(*batchv1.Job); ptr.Deref(j.Spec.ManualSelector, false) {
		return []string{reconcile.SelectorKey(j, j.Spec.Selector)}, nil
	}
	return nil, nil
}

func isJob(ref *metav1.OwnerReference) bool {
	return ref.Kind == "Job" && strings.HasPrefix(ref.APIVersion, batchv1.GroupName+"/")
}

func (c *instance) enqueueJob(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	if j, ok := obj.(*batchv1.Job); ok {
		c.queue.Add(keyOf(j))
	}
}

// enqueueAbandoned queues the pods that a deleted Job with spec.manualSelector may have left without an
// owner: their labels need not name it.
func (c *instance) enqueueAbandoned(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	j, ok := obj.(*batchv1.Job)
	if !ok || !ptr.Deref(j.Spec.ManualSelector, false) {
		return
	}
	found, _ := c.pods.GetIndexer().ByIndex(orphaned, j.Namespace)
	for _, pod := range found {
		c.enqueuePod(pod)
	}
}

func keyOf(j *batchv1.Job) key { return key{namespace: j.Namespace, name: j.Name, uid: j.UID} }

func (c *instance) enqueuePod(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	for _, k := range c.keysOf(pod) {
		if job.FinishedWithFinalizer(pod) && !k.pod {
			c.memories.setUrgent(k, true)
		}
		if pause := c.memories.Pause(k); pause > 0 {
			c.queue.AddAfter(k, pause)
		} else {
			c.queue.Add(k)
		}
	}
}

// keysOf returns the keys that a pod belongs to: its Job, or the Jobs that may adopt it.
func (c *instance) keysOf(pod *corev1.Pod) (keys []key) {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if isJob(ref) {
			return []key{{namespace: pod.Namespace, name: ref.Name, uid: ref.UID}}
		}
		return nil
	}
	for _, j := range c.matchingJobs(pod) {
		keys = append(keys, keyOf(j))
	}
	if len(keys) == 0 && job.HasFinalizer(pod) {
		keys = append(keys, key{namespace: pod.Namespace, name: pod.Name, uid: pod.UID, pod: true})
	}
	return keys
}

// matchingJobs returns the Jobs whose selector matches a pod without a controller, sorted by name: the Job
// that its label names, and Jobs with spec.manualSelector.
func (c *instance) matchingJobs(pod *corev1.Pod) (matching []*batchv1.Job) {
	consider := func(index, value string) {
		found, _ := c.jobs.GetIndexer().ByIndex(index, value)
		for _, obj := range found {
			j := obj.(*batchv1.Job)
			if match, err := job.Matcher(j); err == nil && j.Namespace == pod.Namespace && match(pod.Labels) {
				matching = append(matching, j)
			}
		}
	}
	for _, label := range reconcile.SelectorKeys(pod) {
		consider(manual, label)
	}
	if uid := pod.Labels[batchv1.ControllerUidLabel]; uid != "" {
		consider(byUID, uid)
	}
	slices.SortFunc(matching, func(a, b *batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(matching)
}

// podsOf returns the pods that a Job controls and those that it may adopt, sorted by name.
func (c *instance) podsOf(k key, j *batchv1.Job) (owned, orphans []*corev1.Pod) {
	found, _ := c.pods.GetIndexer().ByIndex(byOwner, string(k.uid))
	owned = make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		pod := obj.(*corev1.Pod)
		switch {
		case pod.Namespace != k.namespace:
		case metav1.GetControllerOfNoCopy(pod) == nil:
			orphans = append(orphans, pod)
		case metav1.GetControllerOfNoCopy(pod).Name == k.name: // the API does not check that name and UID belong together
			owned = append(owned, pod)
		}
	}
	if j != nil && ptr.Deref(j.Spec.ManualSelector, false) {
		orphans = nil // the index has these and others
		found, _ := c.pods.GetIndexer().ByIndex(orphaned, k.namespace)
		for _, obj := range found {
			orphans = append(orphans, obj.(*corev1.Pod))
		}
	}
	byName := func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(owned, byName)
	slices.SortFunc(orphans, byName)
	return owned, orphans
}
