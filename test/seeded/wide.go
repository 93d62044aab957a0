package seeded

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// otherKinds returns the 18 kinds that wide watches besides Deployments and pods.
func otherKinds() []client.Object {
	return []client.Object{
		&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.PersistentVolumeClaim{},
		&corev1.Node{}, &corev1.ResourceQuota{}, &corev1.LimitRange{}, &corev1.PodTemplate{}, &corev1.ReplicationController{},
		&appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.ReplicaSet{}, &batchv1.Job{}, &batchv1.CronJob{},
		&discoveryv1.EndpointSlice{}, &networkingv1.Ingress{}, &policyv1.PodDisruptionBudget{},
	}
}

// wide has the bug of missedExpectation, with pods as members, in a controller of the size of a real operator: it watches 18
// other kinds, records an Event for each reconcile that ends without an error, and renews a Lease. So few of the places where
// a fault can act matter. The fix and the faults that it needs are those of missedExpectation. Modelled on
// openkruise/kruise#1785.
func wide(mgr ctrl.Manager, fixed bool) error {
	x := &expectations{member: newPod}
	do := x.reconcile(fixed)
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		result, err := do(ctx, r, d)
		if err != nil || d.UID == "" {
			return result, err
		}
		recordEvent(ctx, r, d)
		return result, renew(ctx, r, d)
	}, x.watch, func(b *builder.Builder) {
		for _, kind := range otherKinds() {
			b.Watches(kind, handler.EnqueueRequestsFromMapFunc(ownerOf))
		}
	})
}

// recordEvent records an Event. As with client-go's recorder, an error is not returned.
func recordEvent(ctx context.Context, r *reconciler, d *appsv1.Deployment) {
	now := metav1.NewTime(time.Now())
	_ = r.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: d.Namespace, GenerateName: d.Name + "-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: d.Namespace, Name: d.Name, UID: d.UID},
		Reason:         "Reconciled", Message: "members are complete or expected", Type: corev1.EventTypeNormal, Count: 1,
		FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "seeded"},
	})
}

// renew writes the time to a Lease of the Deployment.
func renew(ctx context.Context, r *reconciler, d *appsv1.Deployment) error {
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	if apierrors.IsNotFound(err) {
		return ignoreExists(r.Create(ctx, lease))
	}
	return r.Update(ctx, lease)
}
