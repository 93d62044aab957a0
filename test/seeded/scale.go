package seeded

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// The controllers of this file delete or change members that they should keep.

// nextVictim removes surplus members, the highest first. If a member to remove does not exist any more, it takes the next
// one; but that member may be the one that it removed itself, by a delete without an answer, and whose event is late. The
// fix counts an absent member as removed. It needs a lost answer and a late event. Modelled on instaclustr/cassandra-operator#402,
// a scale-down that is decided on an old view.
func nextVictim(mgr ctrl.Manager, fixed bool) error {
	deleted := map[types.UID]bool{}
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		have, err := members(ctx, r.Client, d)
		if err != nil {
			return ctrl.Result{}, err
		}
		exists := map[string]bool{}
		surplus := -replicas(d)
		for _, m := range have {
			if exists[m.Name] = true; !deleted[m.UID] {
				surplus++
			}
		}
		for n := len(have) - 1; n >= 0 && surplus > 0; n-- {
			m := &have[n]
			if deleted[m.UID] {
				continue
			}
			err := r.Delete(ctx, m, client.Preconditions{UID: &m.UID})
			gone := apierrors.IsNotFound(err) || apierrors.IsConflict(err)
			if err != nil && !gone {
				return ctrl.Result{}, err
			}
			if deleted[m.UID] = true; !gone || fixed {
				surplus--
			}
		}
		for n := range replicas(d) {
			if name := memberName(d, n); !exists[name] {
				if err := ignoreExists(r.Create(ctx, newMember(d, name))); err != nil {
					return ctrl.Result{}, err
				}
			}
		}
		return ctrl.Result{}, nil
	})
}

// side returns the object that serves an image: a ConfigMap for db:1, a Secret for db:2.
func side(d *appsv1.Deployment, second bool) client.Object {
	meta := metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-serving", Labels: map[string]string{MemberOf: d.Name}}
	if second {
		return &corev1.Secret{ObjectMeta: meta}
	}
	return &corev1.ConfigMap{ObjectMeta: meta}
}

// switchOver creates the object that serves the new image, and removes the old one when the new one has existed for five
// seconds. It believes its cache: if another user deletes the new object, and that event is late, nothing serves any
// more. The fix reads the API before it removes the old object. It needs a delete and a late event. Modelled on
// instaclustr/cassandra-operator#407 and percona K8SPXC-716: a destructive action that is decided on an old view.
func switchOver(mgr ctrl.Manager, fixed bool) error {
	const stable = 5 * time.Second
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if d.UID == "" || d.DeletionTimestamp != nil {
			return ctrl.Result{}, nil
		}
		second := image(d) == "db:2"
		serving, old := side(d, second), side(d, !second)
		if err := r.Get(ctx, client.ObjectKeyFromObject(serving), serving); apierrors.IsNotFound(err) {
			return afterCreate, ignoreExists(r.Create(ctx, side(d, second)))
		} else if err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Get(ctx, client.ObjectKeyFromObject(old), old); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if left := stable - time.Since(serving.GetCreationTimestamp().Time); left > 0 {
			return ctrl.Result{RequeueAfter: left}, nil
		}
		if fixed {
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(serving), serving); err != nil {
				return ctrl.Result{RequeueAfter: stable}, client.IgnoreNotFound(err)
			}
			if left := stable - time.Since(serving.GetCreationTimestamp().Time); left > 0 {
				return ctrl.Result{RequeueAfter: left}, nil
			}
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, old))
	}, watchMembers, func(b *builder.Builder) {
		b.Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ownerOf))
	})
}

// staleLeader gives its members the image of the Deployment. A replica that is elected while its informer of Deployments
// is late reverts the work of the leader before. The fix reads the Deployment from the API. It needs two replicas, a late
// event and a leader that is paused. Modelled on Orange-OpenSource/casskop#321 and rabbitmq/cluster-operator#653.
func staleLeader(mgr ctrl.Manager, fixed bool) error {
	if err := warm(mgr, &appsv1.Deployment{}, &corev1.ConfigMap{}); err != nil {
		return err
	}
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if fixed {
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
		}
		if d.UID == "" || d.DeletionTimestamp != nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, updateMembers(ctx, r, d)
	}, watchMembers)
}

// updateMembers creates the members of a Deployment and gives them its image.
func updateMembers(ctx context.Context, r *reconciler, d *appsv1.Deployment) error {
	for n := range replicas(d) {
		m, err := read(ctx, r.Client, d.Namespace, memberName(d, n))
		switch {
		case err != nil:
			return err
		case m == nil:
			err = ignoreExists(r.Create(ctx, newMember(d, memberName(d, n))))
		case m.Data["image"] != image(d):
			m.Data = newMember(d, m.Name).Data
			err = r.Update(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lateDelete replaces members with an old image. A delete that its process had sent when it ended takes effect after the
// next process has replaced the member, and removes the new one. The fix names the UID. It needs a late write of a deposed
// process. Modelled on the missing fencing of client-go's leader election.
func lateDelete(mgr ctrl.Manager, fixed bool) error {
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		for n := range replicas(d) {
			m, err := read(ctx, r.live, d.Namespace, memberName(d, n))
			if err != nil {
				return ctrl.Result{}, err
			}
			if m != nil && m.Data["image"] != image(d) {
				var options []client.DeleteOption
				if fixed {
					options = append(options, client.Preconditions{UID: &m.UID})
				}
				if err := r.Delete(ctx, m, options...); client.IgnoreNotFound(err) != nil {
					return ctrl.Result{}, err
				}
				m = nil
			}
			if m == nil {
				if err := r.Create(ctx, newMember(d, memberName(d, n))); err != nil {
					return ctrl.Result{}, err
				}
			}
		}
		return ctrl.Result{}, nil
	})
}
