package corpus

import (
	"context"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controllers of this file come in pairs: a correct one, and one that violates an automatic invariant although it
// ends in the right state.

// claimData creates a claim for the data of a Deployment. If replace is set, it deletes the claim after a create that
// failed, to start again: harmful, because the create may have taken effect.
func claimData(replace bool) step {
	return func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		err := ignoreExists(r.Create(ctx, claim))
		if err != nil && replace {
			claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-data"}}
			if err := client.IgnoreNotFound(r.Delete(ctx, claim)); err != nil {
				return ctrl.Result{}, err
			}
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		return ensureAndReport(ctx, r, d)
	}
}

// recordFailure creates an object after a reconcile that failed, except with a conflict. Its name is invalid, so the API
// rejects it. If giveUp is not set, the controller sends it again for ever.
func recordFailure(giveUp bool) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error {
		var mu sync.Mutex
		failed := false
		return controller("records", func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			if result, err := ensureAndReport(ctx, r, d); err != nil {
				failed = failed || !apierrors.IsConflict(err)
				return result, err
			}
			if !failed {
				return ctrl.Result{}, nil
			}
			err := r.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "_failed"}})
			if giveUp && apierrors.IsInvalid(err) {
				failed = false
				return ctrl.Result{}, nil
			}
			return ctrl.Result{}, err
		})(mgr)
	}
}

// setConditions reports Failed after a reconcile that failed, and Complete after one that succeeded. If keep is set, it
// does not remove the one when it adds the other.
func setConditions(keep bool) step {
	return func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		failed := r.ensureParts(ctx, d)
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		want, other := appsv1.DeploymentConditionType("Complete"), appsv1.DeploymentConditionType("Failed")
		if failed != nil {
			want, other = other, want
		}
		is := func(typ appsv1.DeploymentConditionType) func(appsv1.DeploymentCondition) bool {
			return func(c appsv1.DeploymentCondition) bool { return c.Type == typ }
		}
		conditions := d.Status.Conditions
		if !keep {
			conditions = slices.DeleteFunc(slices.Clone(conditions), is(other))
		}
		if !slices.ContainsFunc(conditions, is(want)) {
			conditions = append(slices.Clone(conditions), appsv1.DeploymentCondition{Type: want, Status: corev1.ConditionTrue})
		}
		if len(conditions) == len(d.Status.Conditions) && slices.ContainsFunc(d.Status.Conditions, is(want)) && d.Status.ObservedGeneration == d.Generation {
			return ctrl.Result{}, failed
		}
		d.Status.Conditions, d.Status.ObservedGeneration = conditions, d.Generation
		if err := r.Status().Update(ctx, d); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, failed
	}
}
