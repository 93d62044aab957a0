package seeded

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// The controllers of this file clean up what the garbage collector does not know, and may leave it or delete what is needed.

// outside returns the object that a controller creates outside of the Deployment: a bucket or a volume, say.
func outside(d *appsv1.Deployment) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-outside"}}
}

// earlyFinalizer removes its finalizer although the delete of the object outside failed: it retries the delete in the
// background, and a crash loses that. The fix returns the error. It needs a rejected delete and a crash. Modelled on
// Orange-OpenSource/casskop#370: the finalizer is removed before the cleanup is confirmed.
func earlyFinalizer(mgr ctrl.Manager, fixed bool) error {
	const retry = 10 * time.Second
	left := map[string]bool{}
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if left[d.Name] {
			if err := client.IgnoreNotFound(r.Delete(ctx, outside(d))); err != nil {
				return ctrl.Result{}, err
			}
			delete(left, d.Name)
		}
		switch {
		case d.UID == "":
			return ctrl.Result{}, nil
		case d.DeletionTimestamp == nil && controllerutil.AddFinalizer(d, Finalizer):
			return ctrl.Result{}, r.Update(ctx, d)
		case d.DeletionTimestamp == nil:
			return ctrl.Result{}, ignoreExists(r.Create(ctx, outside(d)))
		case !controllerutil.ContainsFinalizer(d, Finalizer):
			return ctrl.Result{}, nil
		}
		if err := client.IgnoreNotFound(r.Delete(ctx, outside(d))); err != nil {
			if fixed {
				return ctrl.Result{}, err
			}
			left[d.Name] = true
		}
		controllerutil.RemoveFinalizer(d, Finalizer)
		return ctrl.Result{RequeueAfter: retry}, client.IgnoreNotFound(r.Update(ctx, d))
	})
}

// lateFinalizer creates the object outside even if adding its finalizer met a conflict, because it will retry. If the user
// deletes the Deployment before the retry has taken effect, nothing deletes the object. The fix returns the conflict. It
// needs a conflict and a late request. Modelled on percona K8SPXC-896: an intermediate state without a way back.
func lateFinalizer(mgr ctrl.Manager, fixed bool) error {
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		switch {
		case d.UID == "":
			return ctrl.Result{}, nil
		case d.DeletionTimestamp == nil && controllerutil.AddFinalizer(d, Finalizer):
			err := r.Update(ctx, d)
			if !apierrors.IsConflict(err) || fixed {
				return ctrl.Result{}, err
			}
			return ctrl.Result{}, errors.Join(err, ignoreExists(r.Create(ctx, outside(d))))
		case d.DeletionTimestamp == nil:
			return ctrl.Result{}, ignoreExists(r.Create(ctx, outside(d)))
		case !controllerutil.ContainsFinalizer(d, Finalizer):
			return ctrl.Result{}, nil
		}
		if err := client.IgnoreNotFound(r.Delete(ctx, outside(d))); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(d, Finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, d))
	})
}

// deleteByName replaces the members of an earlier incarnation of its Deployment. It knows which it has deleted, except one
// whose delete had no answer: if its event is late too, the controller deletes the new member that has the same name. The
// fix names the UID. It needs a Deployment that the user creates again, a lost answer and a late event. Modelled on
// pravega/zookeeper-operator#312 and rabbitmq/cluster-operator#648: a delete that was decided on an old object.
func deleteByName(mgr ctrl.Manager, fixed bool) error {
	deleted := map[string]bool{} // by UID
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		var failed error
		for n := range replicas(d) {
			m, err := read(ctx, r.Client, d.Namespace, memberName(d, n))
			if err != nil {
				return ctrl.Result{}, err
			}
			if m != nil && m.Labels[OwnerUID] == string(d.UID) {
				continue
			}
			if m != nil && !deleted[string(m.UID)] {
				var options []client.DeleteOption
				if fixed {
					options = append(options, client.Preconditions{UID: &m.UID})
				}
				err := r.Delete(ctx, m, options...)
				if deleted[string(m.UID)] = err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err); !deleted[string(m.UID)] {
					failed = err // continue, and retry later
				}
			}
			failed = errors.Join(failed, ignoreExists(r.Create(ctx, newMember(d, memberName(d, n)))))
		}
		return ctrl.Result{}, failed
	})
}

// cachedCleanup creates members, and retries after half a minute if that fails. Before it removes its finalizer it deletes
// the members that it created and those in its cache; one whose create had no answer, and whose event is late, remains.
// The fix lists live. It needs a lost answer and a late event. Modelled on percona K8SPSMDB-585 and rabbitmq/cluster-operator#758:
// an object that the controller did not observe in time.
func cachedCleanup(mgr ctrl.Manager, fixed bool) error {
	const retry = 30 * time.Second
	created := map[string]bool{}
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		switch {
		case d.UID == "":
			return ctrl.Result{}, nil
		case d.DeletionTimestamp == nil && controllerutil.AddFinalizer(d, Finalizer):
			return ctrl.Result{}, r.Update(ctx, d)
		case d.DeletionTimestamp == nil:
			for n := range replicas(d) {
				name := memberName(d, n)
				if created[name] {
					continue
				}
				if err := ignoreExists(r.Create(ctx, newMember(d, name))); err != nil {
					return ctrl.Result{RequeueAfter: retry}, nil
				}
				created[name] = true
			}
			return ctrl.Result{}, nil
		case !controllerutil.ContainsFinalizer(d, Finalizer):
			return ctrl.Result{}, nil
		}
		from := client.Reader(r.Client)
		if fixed {
			from = r.live
		}
		have, err := members(ctx, from, d)
		for _, name := range slices.Sorted(maps.Keys(created)) { // the order of a map differs from run to run
			have = append(have, *newMember(d, name))
		}
		for i := range have {
			err = errors.Join(err, client.IgnoreNotFound(r.Delete(ctx, &have[i])))
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(d, Finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, d))
	}, watchMembers)
}

// unobservedOwner deletes the data of a Deployment when it observes that the Deployment does not exist. If its watch
// expires while the user deletes the Deployment and creates it again, it observes only an update, and the new Deployment
// gets the old data, because the controller matches data by name. The fix compares the owner's UID. It needs a Deployment that
// the user creates again and an expired watch. Modelled on pravega/zookeeper-operator#314 and instaclustr/cassandra-operator#398.
func unobservedOwner(mgr ctrl.Manager, fixed bool) error {
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		data := newData(d)
		m, err := read(ctx, r.live, data.Namespace, data.Name)
		switch {
		case err != nil:
			return ctrl.Result{}, err
		case m != nil && (d.UID == "" || fixed && m.Labels[OwnerUID] != string(d.UID)):
			if err := r.Delete(ctx, m, client.Preconditions{UID: &m.UID}); err != nil && !apierrors.IsConflict(err) {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			return ctrl.Result{RequeueAfter: time.Second}, nil // a finalizer may delay the end of the data
		case m == nil && d.UID != "":
			return afterCreate, ignoreExists(r.Create(ctx, data))
		}
		return ctrl.Result{}, nil
	}, watchMembers)
}

// newData returns the data of a Deployment.
func newData(d *appsv1.Deployment) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name + "-data", Labels: map[string]string{MemberOf: d.Name, OwnerUID: string(d.UID)},
	}}
}
