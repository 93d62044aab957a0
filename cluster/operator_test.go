package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestOperatorAndBundle installs an operator as its users would: the bundle through the kubeconfig, then the
// operator itself, an ordinary controller-runtime manager with leader election that authenticates as its
// service account.
func TestOperatorAndBundle(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: 2})
	admin, err := clientcmd.NewDefaultClientConfig(*c.Kubeconfig(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	k, err := client.New(admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	applyBundle(t, k, "testdata/bundle.yaml")
	runOperator(t, serviceAccountConfig(t, k, admin, "shops", "shopkeeper"))

	shop := &unstructured.Unstructured{}
	shop.SetGroupVersionKind(shopKind)
	await(t, "the shop has its clerks", func() error {
		if err := k.Get(t.Context(), client.ObjectKey{Namespace: "shops", Name: "corner"}, shop); err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(shop.Object, "status", "ready"); n != 3 {
			return fmt.Errorf("%d clerks are ready, want 3", n)
		}
		return nil
	})
	if motto, _, _ := unstructured.NestedString(shop.Object, "spec", "motto"); motto != "Open late" {
		t.Errorf("motto %q: the schema's default was not set", motto)
	}
	// The operator's own Deployment runs, and its disruption budget covers its pods.
	await(t, "the operator's Deployment is available", func() error {
		var d appsv1.Deployment
		if err := k.Get(t.Context(), client.ObjectKey{Namespace: "shops", Name: "shopkeeper"}, &d); err != nil {
			return err
		}
		if d.Status.AvailableReplicas != 2 {
			return fmt.Errorf("%d replicas are available, want 2", d.Status.AvailableReplicas)
		}
		return nil
	})
	// When the owner is gone, the garbage collector deletes the operator's Deployment.
	if err := k.Delete(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	await(t, "the shop's Deployment is collected", func() error {
		err := k.Get(t.Context(), client.ObjectKey{Namespace: "shops", Name: "corner"}, &appsv1.Deployment{})
		if client.IgnoreNotFound(err) == nil && err != nil {
			return nil
		}
		return fmt.Errorf("it is still there (%v)", err)
	})
}

var shopKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Shop"}

// applyBundle applies each document server-side, in order, and retries while the kinds of the bundle's own
// definitions are not served yet.
func applyBundle(t *testing.T, k client.Client, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(u); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		await(t, "apply "+u.GetKind(), func() error {
			return k.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.ForceOwnership, client.FieldOwner("installer"))
		})
	}
}

// serviceAccountConfig returns the configuration of a pod of the operator.
func serviceAccountConfig(t *testing.T, k client.Client, admin *rest.Config, namespace, name string) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	token := tokenRequest()
	if err := k.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	c := rest.AnonymousClientConfig(admin)
	c.BearerToken = token.Status.Token
	return c
}

// runOperator runs the manager until the test ends.
func runOperator(t *testing.T, config *rest.Config) {
	t.Helper()
	m, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:        metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "shopkeeper", LeaderElectionNamespace: "shops",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	shop := &unstructured.Unstructured{}
	shop.SetGroupVersionKind(shopKind)
	err = ctrl.NewControllerManagedBy(m).For(shop).Owns(&appsv1.Deployment{}).Complete(&shopkeeper{m.GetClient(), m.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the operator ended with %v", err)
		}
	})
}

// shopkeeper is a typical operator: it creates a Deployment for each Shop and writes the Shop's status.
type shopkeeper struct {
	client.Client
	scheme *runtime.Scheme
}

func (s *shopkeeper) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	shop := &unstructured.Unstructured{}
	shop.SetGroupVersionKind(shopKind)
	if err := s.Get(ctx, r.NamespacedName, shop); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	clerks, _, _ := unstructured.NestedInt64(shop.Object, "spec", "clerks")
	labels := map[string]string{"shop": shop.GetName()}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, s.Client, d, func() error {
		n := int32(clerks)
		d.Spec.Replicas = &n
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		if len(d.Spec.Template.Spec.Containers) == 0 {
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "clerk", Image: "example.com/clerk:1"}}
		}
		return controllerutil.SetControllerReference(shop, d, s.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := shop.DeepCopy()
	if err := unstructured.SetNestedField(shop.Object, int64(d.Status.ReadyReplicas), "status", "ready"); err != nil {
		return ctrl.Result{}, err
	}
	if equality.Semantic.DeepEqual(before.Object, shop.Object) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, s.Status().Update(ctx, shop)
}

// await repeats f until it returns nil: for states that controllers of a real cluster reach after some time.
func await(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if meta.IsNoMatchError(err) {
			err = fmt.Errorf("not served yet: %w", err)
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		}
	}
}
