package careful

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// write sets a field of the owner's status, at the revision that it was decided on.
func (c *controller) write(ctx context.Context, key cache.ObjectName, owner *corev1.ConfigMap, field, value string) error {
	changed := owner.DeepCopy()
	changed.Data[field] = value
	written, err := c.client.CoreV1().ConfigMaps(owner.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	c.fresh.wroteOwner(key, written.ResourceVersion)
	return nil
}

// release removes the finalizer, at the revision that it was decided on: a pod that the controller
// gave up may have succeeded meanwhile.
func (c *controller) release(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             pod.UID,
		"resourceVersion": pod.ResourceVersion,
		"finalizers":      slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == Finalizer }),
	}})
	if err != nil {
		return err
	}
	written, err := c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		c.fresh.wrotePod(key, written.ResourceVersion)
	}
	return err
}

// delete deletes this pod, and no later pod of the same name.
func (c *controller) delete(ctx context.Context, pod *corev1.Pod) error {
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// create creates the pod of a slot. If the pod exists, this controller created it: the answer to
// that create was lost, or the cache does not show the pod yet.
func (c *controller) create(ctx context.Context, key cache.ObjectName, owner *corev1.ConfigMap, slot string) error {
	pod := podOf(owner, slot)
	pods := c.client.CoreV1().Pods(owner.Namespace)
	written, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		written, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && !metav1.IsControlledBy(written, owner) {
			err = fmt.Errorf("pod %s/%s exists and belongs to another owner", pod.Namespace, pod.Name)
		}
	}
	if err == nil {
		c.fresh.wrotePod(key, written.ResourceVersion)
	}
	return err
}

func podOf(owner *corev1.ConfigMap, slot string) *corev1.Pod {
	hash := fnv.New32a()
	hash.Write([]byte(owner.UID))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprintf("%s-%s-%s", owner.Name, hex.EncodeToString(hash.Sum(nil)), slot),
			Namespace:       owner.Namespace,
			Labels:          map[string]string{Slot: slot},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "work"}}},
	}
	if _, isJob := wanted(owner); isJob {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Finalizers = []string{Finalizer}
	}
	return pod
}
