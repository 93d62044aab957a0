package seeded

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// The controllers of this file are wrong after events in an order that their authors did not expect.

// recreatedSecret marks the Secret of its Deployment. Its event filter drops updates that do not change the data. If the watch
// expires while the user deletes the Secret and creates it again, the controller observes an update to the same data, and
// the new Secret is never marked. The fix compares UIDs as well. It needs a Secret that the user creates again and an
// expired watch. Modelled on openkruise/kruise#2057, a filter that drops a change that the controller needs.
func recreatedSecret(mgr ctrl.Manager, fixed bool) error {
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*corev1.Secret), e.ObjectNew.(*corev1.Secret)
		return string(was.Data["password"]) != string(is.Data["password"]) || fixed && was.UID != is.UID
	}}
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		var s corev1.Secret
		err := r.live.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Name + "-password"}, &s)
		if err != nil || s.Annotations["marked"] != "" {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, "marked", "yes")
		return ctrl.Result{}, r.Update(ctx, &s)
	}, func(b *builder.Builder) {
		b.Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ownerOf), builder.WithPredicates(changed))
	})
}

// replacedTwice replaces a terminating member at once, under a second name. When the member is gone it replaces it again,
// under its own name. (It marks the members that have joined.) The fix sees the replacement. It needs a finalizer of another user, which delays the end of a
// member, and a delete. Modelled on Orange-OpenSource/casskop#342: a state that the controller
// does not know.
func replacedTwice(mgr ctrl.Manager, fixed bool) error {
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		var result ctrl.Result
		for n := range replicas(d) {
			name := memberName(d, n)
			m, err := read(ctx, r.Client, d.Namespace, name)
			if err != nil {
				return ctrl.Result{}, err
			}
			replacement, err := read(ctx, r.Client, d.Namespace, name+"-r")
			if err != nil {
				return ctrl.Result{}, err
			}
			switch {
			case m != nil && m.DeletionTimestamp == nil:
				if m.Annotations["joined"] == "" {
					metav1.SetMetaDataAnnotation(&m.ObjectMeta, "joined", "yes")
					err = r.Update(ctx, m)
				}
				if err != nil {
					return ctrl.Result{}, client.IgnoreNotFound(err)
				}
				continue
			case replacement != nil && replacement.DeletionTimestamp == nil && (fixed || m != nil):
				continue
			case m != nil && replacement == nil:
				name += "-r"
			case m != nil:
				continue // both are terminating
			}
			if err := r.Create(ctx, newMember(d, name)); err != nil && !apierrors.IsAlreadyExists(err) {
				return ctrl.Result{}, err
			}
			result = afterCreate
		}
		return result, nil
	})
}
