package seeded

import (
	"context"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// The controllers of this file write what they have done, and may write what they have not.

// observedGeneration updates its members and reports the generation. It reads the Deployment again for the status, to avoid
// conflicts, and reports the generation of that read although it worked on an earlier one; later it skips the new
// generation. The fix reports the generation that it worked on. It needs an expired watch of Deployments, and another event
// meanwhile: of a finalizer that another user removes from a member, for example. Modelled on controllers that wrap
// the status update in a retry on conflict, and on percona K8SPSMDB-430.
func observedGeneration(mgr ctrl.Manager, fixed bool) error {
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		for n := range replicas(d) {
			m, err := read(ctx, r.live, d.Namespace, memberName(d, n))
			switch {
			case err != nil:
				return ctrl.Result{}, err
			case m == nil:
				err = r.Create(ctx, newMember(d, memberName(d, n)))
			case m.Data["image"] != image(d) && d.Status.ObservedGeneration != d.Generation:
				m.Data = newMember(d, m.Name).Data
				err = r.Update(ctx, m)
			}
			if err != nil {
				return ctrl.Result{}, err
			}
		}
		if !fixed {
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
		}
		if d.Status.ObservedGeneration == d.Generation {
			return ctrl.Result{}, nil
		}
		d.Status.ObservedGeneration = d.Generation
		return ctrl.Result{}, r.Status().Update(ctx, d)
	})
}

// doubleCount counts each finished member once. It records the member as uncounted, removes its finalizer, and counts it. It
// knows whose finalizer it has removed, so a late event is harmless; but it forgets that if the write of the count fails other than by a
// conflict. If that write took effect and only its answer was lost, it counts the member again from the old event. The fix does not
// forget. It needs a lost answer and a late event. Modelled on kubernetes/kubernetes#130103.
func doubleCount(mgr ctrl.Manager, fixed bool) error {
	removed := map[types.UID]bool{}
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		have, err := members(ctx, r.Client, d)
		if err != nil {
			return ctrl.Result{}, err
		}
		uncounted := strings.Fields(d.Annotations["uncounted"])
		var waiting []string // recorded members that still have the finalizer
		added := false
		for i := range have {
			m := &have[i]
			if removed[m.UID] || !controllerutil.ContainsFinalizer(m, Finalizer) {
				continue
			}
			waiting = append(waiting, m.Name)
			if !slices.Contains(uncounted, m.Name) {
				uncounted, added = append(uncounted, m.Name), true
			}
		}
		if added {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, "uncounted", strings.Join(uncounted, " "))
			if err := r.Update(ctx, d); err != nil {
				return ctrl.Result{}, err
			}
		}
		for i := range have {
			m := &have[i]
			if !slices.Contains(waiting, m.Name) {
				continue
			}
			before := m.DeepCopy()
			controllerutil.RemoveFinalizer(m, Finalizer)
			if err := r.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
			removed[m.UID] = true
		}
		if len(uncounted) == 0 {
			return ctrl.Result{}, nil
		}
		counted, _ := strconv.Atoi(d.Annotations["counted"])
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "counted", strconv.Itoa(counted+len(uncounted)))
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "uncounted", "")
		if err := r.Update(ctx, d); err != nil {
			if !fixed && !apierrors.IsConflict(err) {
				clear(removed)
			}
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, nil
	})
}
