package corpus

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controllers of this file write to Deployments that a user deletes and creates again under the same name. They come
// in pairs: a correct one, whose writes name the UID or the revision of the Deployment that they are meant for, and one
// whose writes name neither.

// RetireLabel marks a Deployment that gets no parts. A controller that retires Deployments deletes it.
const RetireLabel = "retire"

// TeamLabel is the label of a Deployment that a controller records in its status.
const TeamLabel = "team"

// retire deletes the Deployments with RetireLabel. If byName is set, it names no UID: harmful, because a late event of a
// Deployment that was deleted deletes the one that has its name now.
func retire(byName bool) step {
	return func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if d.Labels[RetireLabel] == "" {
			return ensureAndReport(ctx, r, d)
		}
		var options []client.DeleteOption
		if !byName {
			options = append(options, client.Preconditions{UID: &d.UID})
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, d, options...))
	}
}

// recordTeam records the team of a Deployment in a condition, once, 2.5 seconds after its creation. If byName is set, the
// patch names no revision: harmful, because it records the team of a Deployment that was deleted in the one that has its
// name now.
func recordTeam(byName bool) step {
	const delay = 2500 * time.Millisecond
	return func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if left := delay - time.Since(d.CreationTimestamp.Time); left > 0 {
			return ctrl.Result{RequeueAfter: left}, nil
		}
		if len(d.Status.Conditions) == 0 {
			before := client.MergeFromWithOptions(d.DeepCopy(), client.MergeFromWithOptimisticLock{})
			if byName {
				before = client.MergeFrom(d.DeepCopy())
			}
			team := d.Labels[TeamLabel]
			if team == "" {
				team = "none"
			}
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Recorded", Status: corev1.ConditionTrue, Reason: team}}
			if err := r.Status().Patch(ctx, d, before); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
		}
		if d.Labels[RetireLabel] != "" {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, r.ensureParts(ctx, d)
	}
}
