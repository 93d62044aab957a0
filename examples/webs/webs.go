// Package webs is the operator that scenarios/operator.yaml describes: a Web of n replicas
// has one Deployment of its name. It shows that the scenario can be played as it stands, and
// what the least is that an operator of a kind of its own has to do.
//
// It deletes nothing: what a Web leaves behind is the garbage collector's. So a Web that is
// made again under its name may find the Deployment of the one before, which it must leave
// alone until that is gone.
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

// Kind is what the operator works on.
var Kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Web"}

// again is when to look once more whether the Deployment of an earlier Web is gone: the event
// may not come, if the watch was away meanwhile.
const again = 500 * time.Millisecond

// SetupWithManager adds the operator to a manager.
func SetupWithManager(mgr ctrl.Manager) error {
	web := &unstructured.Unstructured{}
	web.SetGroupVersionKind(Kind)
	return ctrl.NewControllerManagedBy(mgr).Named("web").For(web).Owns(&appsv1.Deployment{}).
		Complete(&Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader()})
}

// Reconciler brings a Web about.
type Reconciler struct {
	client.Client
	// Live reads from the API, not from a cache.
	Live client.Reader
}

// Reconcile makes the Deployment of a Web, or makes it what the Web says.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	web := &unstructured.Unstructured{}
	web.SetGroupVersionKind(Kind)
	// Live: a cache may still have the Web that was there before under this name.
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

// describe sets what the Web says and leaves alone what the API's defaults said.
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
