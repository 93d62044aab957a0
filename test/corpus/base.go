package corpus

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// reconciler has what the styles share: the client with its cache, and a reader without one.
type reconciler struct {
	client.Client
	live client.Reader
}

// step is one reconcile of a Deployment that exists and is not being deleted.
type step func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error)

// controller returns a function that adds a controller with one style to a manager.
func controller(name string, do step) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error {
		r := &reconciler{mgr.GetClient(), mgr.GetAPIReader()}
		return ctrl.NewControllerManagedBy(mgr).Named(name).For(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).
			Complete(reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				var d appsv1.Deployment
				if err := r.Get(ctx, request.NamespacedName, &d); err != nil || d.DeletionTimestamp != nil {
					return ctrl.Result{}, client.IgnoreNotFound(err)
				}
				return do(ctx, r, &d)
			}))
	}
}

// partName is the name of the nth part of a Deployment.
func partName(d *appsv1.Deployment, n int) string { return fmt.Sprintf("%s-%d", d.Name, n) }

// newPart returns the nth part of a Deployment.
func (r *reconciler) newPart(d *appsv1.Deployment, n int) (*corev1.ConfigMap, error) {
	part := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: partName(d, n), Labels: map[string]string{"part-of": d.Name}},
		Data:       map[string]string{"image": image(d)},
	}
	return part, controllerutil.SetControllerReference(d, part, r.Scheme())
}

func image(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }

// ensureParts creates the parts that the cache does not have, and updates the others. Names follow from the
// owner's, so a repeated create is harmless. A part of another owner, a predecessor that was deleted, is an error, so that the
// reconcile is repeated until the part is collected: if the cache never shows it, no event says that.
func (r *reconciler) ensureParts(ctx context.Context, d *appsv1.Deployment) error {
	for n := range int(*d.Spec.Replicas) {
		part, err := r.newPart(d, n)
		if err != nil {
			return err
		}
		var have corev1.ConfigMap
		err = r.Get(ctx, client.ObjectKeyFromObject(part), &have)
		switch {
		case apierrors.IsNotFound(err):
			err := r.Create(ctx, part)
			if apierrors.IsAlreadyExists(err) {
				err = r.checkOwner(ctx, d, part)
			}
			if err != nil {
				return err
			}
		case err != nil:
			return err
		case have.Data["image"] != image(d):
			have.Data = part.Data
			if err := r.Update(ctx, &have); err != nil {
				return err
			}
		}
	}
	return r.deleteSurplus(ctx, d)
}

// checkOwner returns an error if the part that exists belongs to another owner.
func (r *reconciler) checkOwner(ctx context.Context, d *appsv1.Deployment, part *corev1.ConfigMap) error {
	var have corev1.ConfigMap
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(part), &have); err != nil {
		return err
	}
	return ownedBy(&have, d)
}

// ownedBy returns an error if a part belongs to another owner, such as an earlier Deployment of that name.
func ownedBy(part *corev1.ConfigMap, d *appsv1.Deployment) error {
	if metav1.IsControlledBy(part, d) {
		return nil
	}
	return fmt.Errorf("part %s belongs to another owner", part.Name)
}

// deleteSurplus deletes the parts that the cache has and the Deployment does not want any more.
func (r *reconciler) deleteSurplus(ctx context.Context, d *appsv1.Deployment) error {
	var parts corev1.ConfigMapList
	if err := r.List(ctx, &parts, client.InNamespace(d.Namespace), client.MatchingLabels{"part-of": d.Name}); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for n := range int(*d.Spec.Replicas) {
		wanted[partName(d, n)] = true
	}
	for i := range parts.Items {
		part := &parts.Items[i]
		if wanted[part.Name] || part.DeletionTimestamp != nil || !metav1.IsControlledBy(part, d) {
			continue
		}
		if err := r.Delete(ctx, part, client.Preconditions{UID: &part.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// reportReplicas writes the status with the revision that it was decided on.
func (r *reconciler) reportReplicas(ctx context.Context, d *appsv1.Deployment, replicas int32) error {
	if d.Status.Replicas == replicas && d.Status.ObservedGeneration == d.Generation {
		return nil
	}
	d.Status.Replicas, d.Status.ObservedGeneration = replicas, d.Generation
	return r.Status().Update(ctx, d)
}
