// Package operator is a controller-runtime operator that follows the usual recommendations: it must
// tolerate every order of events that Kubernetes may produce.
//
// A ConfigMap with the label [Label] is a site. The operator creates a Secret and a Deployment,
// which the site owns, and records in an annotation what it created. With a finalizer it deletes
// both when the site is deleted, so it needs no garbage collector.
//
// The recommendations are: CreateOrUpdate with names derived from the owner's, so that a repeated
// create is harmless; updates and patches with the revision they were decided on; deletes with the
// UID; a live read of the site; no state outside of the API.
package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	// Label marks the ConfigMaps that are sites.
	Label = "rehearse.example/site"
	// Made is the annotation with the data that the site's objects were created for.
	Made = "rehearse.example/made"
	// Finalizer keeps a site until its objects are deleted.
	Finalizer = "rehearse.example/site"

	// again is when to check again whether they are deleted: there are no events if they were
	// created and deleted while the watch was disconnected.
	again = 2 * time.Second
)

// SetupWithManager adds the operator to a manager.
func SetupWithManager(mgr ctrl.Manager) error {
	isSite := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[Label] != "" })
	return ctrl.NewControllerManagedBy(mgr).
		Named("site").
		For(&corev1.ConfigMap{}, builder.WithPredicates(isSite)).
		Owns(&corev1.Secret{}).
		Owns(&appsv1.Deployment{}).
		Complete(&Reconciler{mgr.GetClient(), mgr.GetAPIReader()})
}

// Reconciler creates, updates and deletes the objects of sites.
type Reconciler struct {
	client.Client
	// Live reads from the API, not from a cache.
	Live client.Reader
}

// Reconcile executes the next step for one site.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// Live, because two managers may run for a while, and one whose cache lags would create again
	// what the other deletes.
	var site corev1.ConfigMap
	err := r.Live.Get(ctx, request.NamespacedName, &site)
	if apierrors.IsNotFound(err) {
		// A delayed create may have taken effect after the site was deleted.
		_, err := r.deleteMade(ctx, request.NamespacedName)
		return ctrl.Result{}, err
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if site.Labels[Label] == "" && !controllerutil.ContainsFinalizer(&site, Finalizer) {
		return ctrl.Result{}, nil // an object of another ConfigMap changed
	}
	if site.DeletionTimestamp != nil {
		return r.takeAway(ctx, &site)
	}
	if !controllerutil.ContainsFinalizer(&site, Finalizer) {
		return ctrl.Result{}, r.patch(ctx, &site, func() { controllerutil.AddFinalizer(&site, Finalizer) })
	}
	made := digest(site.Data)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		secret.Data = map[string][]byte{"key": []byte(digest(map[string]string{"uid": string(site.UID)}))}
		return controllerutil.SetControllerReference(&site, secret, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		describe(deployment, &site, made)
		return controllerutil.SetControllerReference(&site, deployment, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	if site.Annotations[Made] == made {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.patch(ctx, &site, func() { metav1.SetMetaDataAnnotation(&site.ObjectMeta, Made, made) })
}

// describe sets the fields of the Deployment that the operator manages, and leaves those of the
// API's defaults and of other clients.
func describe(d *appsv1.Deployment, site *corev1.ConfigMap, made string) {
	labels := map[string]string{Label: site.Name}
	replicas, _ := strconv.ParseInt(site.Data["replicas"], 10, 32)
	d.Spec.Replicas = new(int32(replicas))
	if d.CreationTimestamp.IsZero() {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "site"}}
	}
	metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, Made, made)
	d.Spec.Template.Spec.Containers[0].Image = site.Data["image"]
}

// takeAway deletes what the site owns, and removes the site's finalizer when that is deleted. It
// reads live: a cache may not show an object created a moment ago, and the site would be released
// too early.
func (r *Reconciler) takeAway(ctx context.Context, site *corev1.ConfigMap) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(site, Finalizer) {
		return ctrl.Result{}, nil
	}
	left, err := r.deleteMade(ctx, client.ObjectKeyFromObject(site))
	if err != nil {
		return ctrl.Result{}, err
	}
	if left {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return ctrl.Result{}, r.patch(ctx, site, func() { controllerutil.RemoveFinalizer(site, Finalizer) })
}

// deleteMade deletes what was created for a site of this name, and reports whether any object was
// left.
func (r *Reconciler) deleteMade(ctx context.Context, site client.ObjectKey) (left bool, err error) {
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Secret{}} {
		err := r.Live.Get(ctx, site, o)
		if client.IgnoreNotFound(err) != nil {
			return left, err
		}
		ref := metav1.GetControllerOf(o)
		if err != nil || ref == nil || ref.Kind != "ConfigMap" || ref.Name != site.Name {
			continue
		}
		left = true
		uid := o.GetUID()
		err = r.Delete(ctx, o, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return left, err
		}
	}
	return left, nil
}

// patch changes the site, unless another client has changed it since it was read.
func (r *Reconciler) patch(ctx context.Context, site *corev1.ConfigMap, change func()) error {
	before := site.DeepCopy()
	change()
	return client.IgnoreNotFound(r.Patch(ctx, site, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func digest(data map[string]string) string {
	hash := sha256.New()
	for _, key := range []string{"image", "replicas", "uid"} {
		hash.Write([]byte(key + "=" + data[key] + "\n"))
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}
