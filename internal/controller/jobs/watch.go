package jobs

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// The indexes of the caches.
const (
	// byOwner of pods is the UID of the Job that controls them, or that the labels of a
	// pod without a controller name.
	byOwner = "owner"
	// orphaned of pods is the namespace of those without a controller. A selector of the
	// user's own may match any of them: those that another Job has left bear its UID as a label.
	orphaned = "orphaned"
	// byUID of Jobs.
	byUID = "uid"
	// manual of Jobs is the namespace of those with spec.manualSelector.
	manual = "manual"
)

// watch has everything that changes looked at. Nothing is filtered away: what a plan
// does not depend on costs a plan, and what a filter forgets costs a Job.
func (c *instance) watch() error {
	err := c.pods.AddIndexers(cache.Indexers{byOwner: ownerIndex, orphaned: orphanIndex})
	if err == nil {
		err = c.jobs.AddIndexers(cache.Indexers{byUID: uidIndex, manual: manualIndex})
	}
	if err == nil {
		_, err = c.jobs.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if j := obj.(*batchv1.Job); !c.options.mine(j) {
					c.metrics.external(j)
				}
				c.seeJob(obj)
			},
			DeleteFunc: func(obj any) {
				c.seeJob(obj)
				c.seeAbandoned(obj)
			},
			UpdateFunc: func(old, now any) {
				if old.(*batchv1.Job).UID != now.(*batchv1.Job).UID { // deleted and made again in between
					c.seeJob(old)
				}
				c.seeJob(now)
			},
		})
	}
	if err == nil {
		_, err = c.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: c.seePod, DeleteFunc: c.seePod,
			UpdateFunc: func(old, now any) {
				c.metrics.finalizer(job.HeldFinished(old.(*corev1.Pod)), job.HeldFinished(now.(*corev1.Pod)))
				if !slices.Equal(c.keysOf(old.(*corev1.Pod)), c.keysOf(now.(*corev1.Pod))) {
					c.seePod(old)
				}
				c.seePod(now)
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
		return []string{j.Namespace}, nil
	}
	return nil, nil
}

func isJob(ref *metav1.OwnerReference) bool {
	return ref.Kind == "Job" && strings.HasPrefix(ref.APIVersion, batchv1.GroupName+"/")
}

func (c *instance) seeJob(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	if j, ok := obj.(*batchv1.Job); ok {
		c.queue.Add(keyOf(j))
	}
}

// seeAbandoned queues the pods that a Job with spec.manualSelector may have left without an
// owner: nothing in them names the Job.
func (c *instance) seeAbandoned(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	j, ok := obj.(*batchv1.Job)
	if !ok || !ptr.Deref(j.Spec.ManualSelector, false) {
		return
	}
	found, _ := c.pods.GetIndexer().ByIndex(orphaned, j.Namespace)
	for _, pod := range found {
		c.seePod(pod)
	}
}

func keyOf(j *batchv1.Job) key { return key{namespace: j.Namespace, name: j.Name, uid: j.UID} }

func (c *instance) seePod(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	for _, k := range c.keysOf(pod) {
		if job.HeldFinished(pod) && !k.pod {
			c.memories.isOpen(k, true)
		}
		if pause := c.memories.Pause(k); pause > 0 {
			c.queue.AddAfter(k, pause)
		} else {
			c.queue.Add(k)
		}
	}
}

// keysOf are the Jobs that a pod matters to.
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
	if len(keys) == 0 && job.Held(pod) {
		keys = append(keys, key{namespace: pod.Namespace, name: pod.Name, uid: pod.UID, pod: true})
	}
	return keys
}

// matchingJobs are the Jobs whose selector matches a pod without a controller: the one that its
// label names, and any with spec.manualSelector.
func (c *instance) matchingJobs(pod *corev1.Pod) (matching []*batchv1.Job) {
	found, _ := c.jobs.GetIndexer().ByIndex(manual, pod.Namespace)
	if uid := pod.Labels[batchv1.ControllerUidLabel]; uid != "" {
		named, _ := c.jobs.GetIndexer().ByIndex(byUID, uid)
		found = append(slices.Clip(found), named...)
	}
	for _, obj := range found {
		j := obj.(*batchv1.Job)
		if match, err := job.Matcher(j); err == nil && j.Namespace == pod.Namespace && match(pod.Labels) {
			matching = append(matching, j)
		}
	}
	slices.SortFunc(matching, func(a, b *batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(matching)
}

// podsOf are the pods that a Job controls, by name, and those that it may adopt.
func (c *instance) podsOf(k key, j *batchv1.Job) (owned, orphans []*corev1.Pod) {
	found, _ := c.pods.GetIndexer().ByIndex(byOwner, string(k.uid))
	owned = make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		pod := obj.(*corev1.Pod)
		switch {
		case pod.Namespace != k.namespace:
		case metav1.GetControllerOfNoCopy(pod) == nil:
			orphans = append(orphans, pod)
		case metav1.GetControllerOfNoCopy(pod).Name == k.name: // the API does not check that it belongs to the UID
			owned = append(owned, pod)
		}
	}
	if j != nil && ptr.Deref(j.Spec.ManualSelector, false) {
		orphans = nil // those by label are among these
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
