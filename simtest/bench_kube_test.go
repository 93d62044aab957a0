package simtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// BenchmarkJob3 measures upstream's Job controller with three pods and the kubelet's stages. A failure would end the measurement: the search
// finds that this controller may start a fourth pod, so the final states are not compared, and that it may create no pod for a Job that is
// created again, so no Job is.
func BenchmarkJob3(b *testing.B) {
	benchRuns(b, simtest.Options{}, func(w *simtest.World) {
		w.AllowDifferentOutcomes()
		w.Except(fault.Fault{Kind: fault.KindRecreate})
		jobTest(w)
	})
}

// BenchmarkOperator measures a controller-runtime operator of three kinds.
func BenchmarkOperator(b *testing.B) { benchRuns(b, simtest.Options{}, operatorTest) }

func operatorTest(w *simtest.World) {
	w.Manager("operator", operator)
	w.Create(configMap("app", "v1"))
	w.Settle()
	w.Apply(configMap("app", "v2"))
	w.Eventually(time.Minute, invariant.All(
		invariant.Field("secrets", "default", "app", "data.copy", "djI="),
		invariant.Field("deployments.apps", "default", "app", "spec.template.metadata.annotations.text", "v2")))
}

// operator manages a Secret and a Deployment for each ConfigMap.
func operator(mgr ctrl.Manager) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).Named("operator").
		For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Owns(&appsv1.Deployment{}).
		Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			var app corev1.ConfigMap
			if err := c.Get(ctx, r.NamespacedName, &app); err != nil || app.DeletionTimestamp != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			meta := metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}
			secret := &corev1.Secret{ObjectMeta: meta}
			if _, err := ctrl.CreateOrUpdate(ctx, c, secret, func() error {
				secret.Data = map[string][]byte{"copy": []byte(app.Data["text"])}
				return controllerutil.SetControllerReference(&app, secret, mgr.GetScheme())
			}); err != nil {
				return reconcile.Result{}, fmt.Errorf("secret: %w", err)
			}
			deployment := &appsv1.Deployment{ObjectMeta: meta}
			_, err := ctrl.CreateOrUpdate(ctx, c, deployment, func() error {
				like := replicaSet(app.Name, 2).Spec
				if deployment.CreationTimestamp.IsZero() {
					deployment.Spec.Selector, deployment.Spec.Template = like.Selector, like.Template
				}
				deployment.Spec.Template.Annotations = map[string]string{"text": app.Data["text"]}
				return controllerutil.SetControllerReference(&app, deployment, mgr.GetScheme())
			})
			return reconcile.Result{}, err
		}))
}
