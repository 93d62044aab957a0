package onesyncjob

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// createPods creates n pods, and expects their events.
func (c *controller) createPods(ctx context.Context, v *view, n int) error {
	for ; n > 0; n-- {
		pod, ok := v.next()
		if !ok {
			return nil
		}
		c.expect(c.creates, v.key, 1)
		pod, err := c.client.CoreV1().Pods(v.job.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			c.expect(c.creates, v.key, -1) // no event will arrive
			return err
		}
		v.active = append(v.active, pod)
	}
	return nil
}

// next returns the pod to create next; for an indexed Job that of the first free index.
func (v *view) next() (*corev1.Pod, bool) {
	template := v.job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: v.job.Name + "-", Namespace: v.job.Namespace,
		Labels: template.Labels, Annotations: maps.Clone(template.Annotations),
		Finalizers:      []string{batchv1.JobTrackingFinalizer},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(v.job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}, Spec: template.Spec}
	if !indexed(v.job) {
		return pod, true
	}
	for n := range int(*v.job.Spec.Completions) {
		runs := func(p *corev1.Pod) bool { return indexOf(p) == n }
		if slices.Contains(v.indexes, n) || slices.ContainsFunc(v.active, runs) {
			continue
		}
		text := strconv.Itoa(n)
		pod.GenerateName += text + "-"
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[batchv1.JobCompletionIndexAnnotation] = text
		pod.Spec.Hostname = v.job.Name + "-" + text
		return pod, true
	}
	return nil, false
}

// deletePods deletes n of the active pods, the newest first.
func (c *controller) deletePods(ctx context.Context, v *view, n int) error {
	for ; n > 0; n-- {
		last := len(v.active) - 1
		pod := v.active[last]
		c.expect(c.deletes, v.key, 1)
		err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
		if err != nil {
			c.expect(c.deletes, v.key, -1)
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		v.active = v.active[:last]
		v.terminating++
	}
	return nil
}

// releaseAll removes the finalizer from pods.
func (c *controller) releaseAll(ctx context.Context, pods []*corev1.Pod) error {
	for _, pod := range pods {
		rest := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == batchv1.JobTrackingFinalizer })
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "finalizers": rest}})
		if err != nil {
			return err
		}
		_, err = c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		c.mu.Lock()
		c.released[pod.UID] = true
		c.mu.Unlock()
	}
	return nil
}
