package careful

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// soon is when to check again after a change that no event may announce: a cache that lags.
const soon = time.Second

// sync executes one phase for an owner, and returns when to sync again.
func (c *controller) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if c.fresh.behind(key) {
		return soon, nil
	}
	// List pods before reading the owner. A pod that is absent here and had succeeded was counted
	// earlier, so every later read of the owner shows it as counted.
	pods, err := c.podsNamed(key)
	if err != nil {
		return 0, err
	}
	owner, err := c.owners.ConfigMaps(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if owner == nil || owner.DeletionTimestamp != nil {
		return c.releaseOrphans(ctx, key, pods)
	}
	var mine, others []*corev1.Pod
	for _, pod := range pods {
		if metav1.IsControlledBy(pod, owner) {
			mine = append(mine, pod)
		} else {
			others = append(others, pod)
		}
	}
	// The owner may have been deleted and created again: the pods of the old one would keep their finalizer.
	if wait, err := c.releaseOrphans(ctx, key, others); err != nil || wait > 0 {
		return wait, err
	}
	if owner.Labels[Label] == "" || owner.Data["complete"] != "" {
		return 0, nil
	}
	return c.reconcile(ctx, key, owner, mine)
}

func (c *controller) reconcile(ctx context.Context, key cache.ObjectName, owner *corev1.ConfigMap, pods []*corev1.Pod) (time.Duration, error) {
	want, isJob := wanted(owner)
	done := strings.Fields(owner.Data["succeeded"])
	bySlot := map[string]*corev1.Pod{}
	counted, held := slices.Clone(done), false
	for _, pod := range pods {
		slot := pod.Labels[Slot]
		bySlot[slot] = pod
		held = held || slices.Contains(pod.Finalizers, Finalizer)
		if isJob && pod.Status.Phase == corev1.PodSucceeded && !slices.Contains(counted, slot) {
			counted = append(counted, slot)
		}
	}
	// Phase 1: record the slots that succeeded.
	if len(counted) > len(done) {
		slices.Sort(counted)
		return 0, c.write(ctx, key, owner, "succeeded", strings.Join(counted, " "))
	}
	// Phase 2: release the pods that are recorded, or that ended without success.
	for _, pod := range pods {
		ended := isEnded(pod) || pod.DeletionTimestamp != nil
		if ended && slices.Contains(pod.Finalizers, Finalizer) {
			if err := c.release(ctx, key, pod); err != nil {
				return 0, err
			}
		}
	}
	// Phase 3: all pods are recorded and released.
	if isJob && len(done) >= want && !held {
		return 0, c.write(ctx, key, owner, "complete", "true")
	}
	var missing []string
	var surplus []*corev1.Pod
	for n := range want {
		slot := strconv.Itoa(n)
		if bySlot[slot] == nil && !slices.Contains(done, slot) {
			missing = append(missing, slot)
		}
	}
	for _, pod := range pods {
		n, err := strconv.Atoi(pod.Labels[Slot])
		over := err != nil || n >= want
		replace := isEnded(pod) && !slices.Contains(done, pod.Labels[Slot])
		if (over || replace) && pod.DeletionTimestamp == nil {
			surplus = append(surplus, pod)
		}
	}
	return c.scale(ctx, key, owner, missing, surplus)
}

// scale creates and deletes pods, if the owner has not changed since it was read.
func (c *controller) scale(ctx context.Context, key cache.ObjectName, owner *corev1.ConfigMap, missing []string, surplus []*corev1.Pod) (time.Duration, error) {
	if len(missing)+len(surplus) == 0 {
		return 0, nil
	}
	live, err := c.client.CoreV1().ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if live.UID != owner.UID || live.ResourceVersion != owner.ResourceVersion {
		return soon, nil // decide again when the cache has the change
	}
	for _, slot := range missing {
		if err := c.create(ctx, key, owner, slot); err != nil {
			return 0, err
		}
	}
	for _, pod := range surplus {
		if err := c.delete(ctx, pod); err != nil {
			return 0, err
		}
	}
	if len(missing) > 0 {
		// A pod that is deleted before any list or watch has shown it causes no event: the caches
		// pass its revision silently. Decide again after a while.
		return soon, nil
	}
	return 0, nil
}

// releaseOrphans removes the finalizer from the pods of an owner that no longer exists.
func (c *controller) releaseOrphans(ctx context.Context, key cache.ObjectName, pods []*corev1.Pod) (time.Duration, error) {
	for _, pod := range pods {
		if !slices.Contains(pod.Finalizers, Finalizer) {
			continue
		}
		live, err := c.client.CoreV1().ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return 0, err
		case err == nil && live.DeletionTimestamp == nil && metav1.IsControlledBy(pod, live):
			return soon, nil
		}
		if err := c.release(ctx, key, pod); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// podsNamed returns the pods of all owners that have, or had, this name.
func (c *controller) podsNamed(key cache.ObjectName) (pods []*corev1.Pod, err error) {
	all, err := c.pods.Pods(key.Namespace).List(labels.Everything())
	for _, pod := range all {
		if ref := metav1.GetControllerOf(pod); ref != nil && ref.Kind == "ConfigMap" && ref.Name == key.Name && pod.Labels[Slot] != "" {
			pods = append(pods, pod)
		}
	}
	// The lister returns pods in the order of a map.
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, err
}

func wanted(owner *corev1.ConfigMap) (n int, isJob bool) {
	text, isJob := owner.Data["completions"]
	if !isJob {
		text = owner.Data["replicas"]
	}
	n, _ = strconv.Atoi(text)
	return n, isJob
}

func isEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
