package naiveclonesets

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// behind reports whether a cache does not show an own write yet.
func (c *controller) behind(key cache.ObjectName, m *memory) bool {
	for resource, revision := range m.wrote {
		reached := c.caches[resource].GetStore().LastStoreSyncResourceVersion()
		if n, err := resourceversion.CompareResourceVersion(reached, revision); err != nil || n < 0 {
			return true
		}
	}
	for uid, name := range m.gone {
		obj, found, _ := c.caches["pods"].GetStore().GetByKey(key.Namespace + "/" + name)
		if found && obj.(*corev1.Pod).UID == uid && obj.(*corev1.Pod).DeletionTimestamp == nil {
			return true
		}
		delete(m.gone, uid)
	}
	return false
}

func (c *controller) writeStatus(ctx context.Context, set *v1alpha1.CloneSet, m *memory, status *v1alpha1.CloneSetStatus) error {
	next := *set
	next.Status = *status
	next.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return err
	}
	written, err := c.sets.Namespace(set.Namespace).UpdateStatus(ctx, &unstructured.Unstructured{Object: content}, metav1.UpdateOptions{})
	if err == nil {
		m.wrote["clonesets"] = written.GetResourceVersion()
	}
	return err
}

// kind is the API's name of a kind of object, and the client for it.
func (c *controller) kind(o workload.Object) (string, rest.Interface, workload.Object) {
	switch o.(type) {
	case *corev1.Pod:
		return "pods", c.client.CoreV1().RESTClient(), &corev1.Pod{}
	case *corev1.PersistentVolumeClaim:
		return "persistentvolumeclaims", c.client.CoreV1().RESTClient(), &corev1.PersistentVolumeClaim{}
	case *appsv1.ControllerRevision:
		return "controllerrevisions", c.client.AppsV1().RESTClient(), &appsv1.ControllerRevision{}
	}
	return "clonesets", nil, nil
}

// act executes an action and the actions that follow it.
func (c *controller) act(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) error {
	resource, client, left := c.kind(a.Object)
	name := a.Object.GetName()
	switch {
	case resource == "clonesets":
		patched, err := c.sets.Namespace(set.Namespace).Patch(ctx, name, a.PatchType, workload.Named(a.Body(), set.UID, set.ResourceVersion), metav1.PatchOptions{})
		if err == nil {
			m.wrote[resource] = patched.GetResourceVersion()
		}
		return err
	case a.Verb == workload.Create:
		return c.create(ctx, set, m, a)
	case a.Verb == workload.Delete:
		return c.delete(ctx, set, m, a.Object)
	case c.ClaimsFirst && a.Reason.Code == "Marked":
		return c.deleteWithClaims(ctx, set, m, a.Object)
	case c.ImageFirst && a.Then != nil && a.Then.Subresource == "":
		first := *a
		first.Then, first.Exact = nil, false
		then := *a.Then
		then.Then, then.Exact, then.Object = &first, false, a.Object
		swapped := c.Switches
		swapped.ImageFirst = false
		inner := *c
		inner.Switches = swapped
		return inner.act(ctx, set, m, &then)
	}
	revision := ""
	if a.Exact {
		revision = a.Object.GetResourceVersion()
	}
	request := client.Patch(a.PatchType).Namespace(set.Namespace).Resource(resource).Name(name)
	if a.Subresource != "" {
		request = request.SubResource(a.Subresource)
	}
	if err := request.Body(workload.Named(a.Body(), a.Object.GetUID(), revision)).Do(ctx).Into(left); err != nil {
		return err
	}
	m.wrote[resource] = left.GetResourceVersion()
	if a.Then == nil {
		return nil
	}
	then := *a.Then
	then.Object = left
	return c.act(ctx, set, m, &then)
}

func (c *controller) create(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) error {
	resource, client, made := c.kind(a.Object)
	if pod, ok := a.Object.(*corev1.Pod); ok && c.Draws {
		m.drawn++ // deterministic, so that a run repeats
		id := fmt.Sprintf("%d-%d", time.Now().UnixMilli()%100_000, m.drawn)
		pod.Name, pod.Labels[kruise.LabelInstanceID] = set.Name+"-"+id, id
	}
	name := a.Object.GetName()
	if resource != "controllerrevisions" {
		m.creates[name] = true
	}
	err := client.Post().Namespace(set.Namespace).Resource(resource).Body(a.Object).Do(ctx).Into(made)
	if err != nil {
		delete(m.creates, name)
	} else {
		m.wrote[resource] = made.GetResourceVersion()
	}
	if err != nil && !apierrors.IsAlreadyExists(err) || a.Then == nil {
		return err
	}
	return c.act(ctx, set, m, a.Then)
}

func (c *controller) delete(ctx context.Context, set *v1alpha1.CloneSet, m *memory, o workload.Object) error {
	resource, client, _ := c.kind(o)
	uid := o.GetUID()
	m.deletes[o.GetName()] = true
	err := client.Delete().Namespace(set.Namespace).Resource(resource).Name(o.GetName()).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
	switch {
	case err != nil:
		delete(m.deletes, o.GetName())
	case resource == "pods":
		m.gone[uid] = o.GetName()
	}
	return err
}

// deleteWithClaims deletes a pod's claims and then the pod. A controller that crashes in between
// does not know after its restart that the pod was to be deleted.
func (c *controller) deleteWithClaims(ctx context.Context, set *v1alpha1.CloneSet, m *memory, pod workload.Object) error {
	instance := ""
	if obj, found, _ := c.caches["pods"].GetStore().GetByKey(pod.GetNamespace() + "/" + pod.GetName()); found {
		instance = obj.(*corev1.Pod).Labels[kruise.LabelInstanceID]
	}
	for _, obj := range c.caches["persistentvolumeclaims"].GetStore().List() {
		claim := obj.(*corev1.PersistentVolumeClaim)
		if claim.Labels[kruise.LabelInstanceID] != instance || !metav1.IsControlledBy(claim, set) {
			continue
		}
		if err := c.delete(ctx, set, m, claim); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return c.delete(ctx, set, m, pod)
}
