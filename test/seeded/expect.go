package seeded

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// missedExpectation waits for the event of each member that it created before it does anything else. If the watch is down
// while the member is created and deleted, the new list does not have it, and the event never comes. The fix asks the API
// after ten seconds. It needs an expired watch and a delete. Modelled on openkruise/kruise#1785.
func missedExpectation(mgr ctrl.Manager, fixed bool) error {
	x := &expectations{member: func(d *appsv1.Deployment, name string) client.Object { return newMember(d, name) }}
	return buildAll(mgr, x.reconcile(fixed), x.watch)
}

// expectations are the creates whose events have not been delivered.
type expectations struct {
	awaited sync.Map // name -> time of the create
	// member returns a member of a Deployment.
	member func(d *appsv1.Deployment, name string) client.Object
}

// newPod returns a member that is a pod.
func newPod(d *appsv1.Deployment, name string) client.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name, Labels: map[string]string{MemberOf: d.Name}},
		Spec:       d.Spec.Template.Spec,
	}
}

// watch lowers the expectation of a member when it is observed for the first time.
func (x *expectations) watch(b *builder.Builder) {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, o client.Object, q queue) {
		for _, owner := range ownerOf(ctx, o) {
			q.Add(owner)
		}
	}
	b.Watches(x.member(emptyDeployment(), ""), handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			x.awaited.Delete(e.Object.GetName())
			add(ctx, e.Object, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	})
}

// emptyDeployment returns a Deployment of which only the type of its members matters.
func emptyDeployment() *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
	return d
}

// waiting reports whether an event is expected. With check it asks the API about creates that are older than recheck.
func (x *expectations) waiting(ctx context.Context, r *reconciler, d *appsv1.Deployment, check bool) (waits bool, err error) {
	x.awaited.Range(func(key, at any) bool {
		if waits = true; check && time.Since(at.(time.Time)) >= recheck {
			m := x.member(d, key.(string))
			if err = r.live.Get(ctx, client.ObjectKeyFromObject(m), m); apierrors.IsNotFound(err) {
				x.awaited.Delete(key)
				waits, err = false, nil
			}
		}
		return !waits && err == nil
	})
	return waits, err
}

// reconcile creates the members that the cache does not have, unless events are expected.
func (x *expectations) reconcile(fixed bool) reconcileFunc {
	return func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if d.UID == "" || d.DeletionTimestamp != nil {
			return ctrl.Result{}, nil
		}
		again := ctrl.Result{}
		if fixed {
			again.RequeueAfter = recheck
		}
		if waits, err := x.waiting(ctx, r, d, fixed); waits || err != nil {
			return again, err
		}
		created := false
		for n := range replicas(d) {
			m := x.member(d, memberName(d, n))
			err := r.Get(ctx, client.ObjectKeyFromObject(m), m)
			if err == nil {
				continue
			}
			if !apierrors.IsNotFound(err) {
				return ctrl.Result{}, err
			}
			m = x.member(d, memberName(d, n))
			x.awaited.Store(m.GetName(), time.Now())
			if err := r.Create(ctx, m); err != nil {
				x.awaited.Delete(m.GetName())
				return again, ignoreExists(err)
			}
			created = true
		}
		if !created {
			return ctrl.Result{}, nil
		}
		return again, nil
	}
}
