// Package webs is the operator that scenarios/operator.yaml describes: a Web of n replicas has one
// Deployment of the same name. It shows that the scenario can be used unchanged, and what an
// operator of a custom kind has to do at least.
//
// It deletes nothing: the garbage collector deletes the Deployment of a deleted Web. A Web that is
// created again under the same name may therefore find the previous Web's Deployment, which it must
// not change until it is deleted.
package webs

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Kind is the kind of the operator's custom resource.
var Kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Web"}

// again is when to check again whether the Deployment of an earlier Web is deleted: there may be no
// event if the watch was disconnected meanwhile.
const again = 500 * time.Millisecond

// SetupWithManager adds the operator to a manager.
func SetupWithManager(mgr ctrl.Manager) error {
	web := &unstructured.Unstructured{}
	web.SetGroupVersionKind(Kind)
	return ctrl.NewControllerManagedBy(mgr).Named("web").For(web).Owns(&appsv1.Deployment{}).
		Complete(&Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader()})
}

// Reconciler creates and updates the Deployments of Webs.
type Reconciler struct {
	client.Client
	// Live reads from the API, not from a cache.
	Live client.Reader
}

// Reconcile creates the Deployment of a Web, or updates it to match the Web.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	web := &unstructured.Unstructured{}
	web.SetGroupVersionKind(Kind)
	// Live: a cache may still contain an earlier Web of this name.
	if err := r.Live.Get(ctx, request.NamespacedName, web); err != nil || web.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment := &appsv1.Deployment{}
	err := r.Live.Get(ctx, request.NamespacedName, deployment)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err == nil && !metav1.IsControlledBy(deployment, web) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	deployment.Namespace, deployment.Name = web.GetNamespace(), web.GetName()
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		describe(deployment, web)
		return controllerutil.SetControllerReference(web, deployment, r.Scheme())
	})
	return ctrl.Result{}, err
}

// describe sets the fields that the Web determines, and leaves those of the API's defaults.
func describe(d *appsv1.Deployment, web *unstructured.Unstructured) {
	labels := map[string]string{"app": web.GetName()}
	replicas, _, _ := unstructured.NestedInt64(web.Object, "spec", "replicas")
	d.Spec.Replicas = new(int32(replicas))
	if d.CreationTimestamp.IsZero() {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web"}}
	}
	d.Spec.Template.Spec.Containers[0].Image, _, _ = unstructured.NestedString(web.Object, "spec", "image")
}
