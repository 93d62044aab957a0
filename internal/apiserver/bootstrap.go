package apiserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// bootstrapHook is the name under which /readyz shows bootstrap.
const bootstrapHook = "rehearse/bootstrap-policy"

// bootstrapAtOnce replaces upstream's two hooks that create the default roles and priority classes by our
// own. Upstream's sleep for a second first, for an etcd that may not be running yet; our store is running,
// and that second is half of the start time of a cluster. Our hook creates the same objects, with upstream's
// reconciliation.
func bootstrapAtOnce(c *genericapiserver.Config, d *handlers) error {
	c.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName, schedulingrest.PostStartHookName)
	return c.AddPostStartHook(bootstrapHook, whenAdmitted(func(ctx context.Context) error {
		client, err := kubernetes.NewForConfig(d.config("system:apiserver"))
		if err != nil {
			return err
		}
		return bootstrap(ctx, client)
	}))
}

// whenAdmitted returns a hook that calls create until the API server admits its writes, or stops. A hook that returns an error terminates the
// process, and on a busy machine the first writes of a server may fail (see notReady).
func whenAdmitted(create func(context.Context) error) genericapiserver.PostStartHookFunc {
	return func(hook genericapiserver.PostStartHookContext) error {
		err := untilAdmitted(hook, nil, create) // the caller of the server limits its start
		if hook.Err() != nil {
			return nil // the server stops: no client needs the objects
		}
		return err
	}
}

const (
	admittedTimeout = 2 * time.Minute        // a busy machine may need several times ten seconds (see notReady)
	admittedPause   = 100 * time.Millisecond // before a write is tried again
)

// UntilAdmitted calls write until the API server is ready for it: until it succeeds, or fails for another reason. After two minutes, or when ctx ends, it
// returns the last error.
func UntilAdmitted(ctx context.Context, write func(context.Context) error) error {
	limit := time.NewTimer(admittedTimeout)
	defer limit.Stop()
	return untilAdmitted(ctx, limit.C, write)
}

func untilAdmitted(ctx context.Context, limit <-chan time.Time, write func(context.Context) error) error {
	for {
		err := write(ctx)
		if err == nil || !notReady(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-limit:
			return fmt.Errorf("the API server was not ready within %s: %w", admittedTimeout, err)
		case <-time.After(admittedPause):
		}
	}
}

// notReady reports whether an error is the answer of a server that is too busy, or of an admission plugin that is not ready: a plugin
// whose caches are not complete lets a write wait for ten seconds and then rejects it, without a reason of its own
// (k8s.io/apiserver, pkg/admission/plugin: webhook/generic, policy/generic and namespace/lifecycle).
func notReady(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "not yet ready to handle request") ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}

func bootstrap(ctx context.Context, client kubernetes.Interface) error {
	if err := bootstrapNamespaces(ctx, client); err != nil {
		return err
	}
	for _, class := range schedulingv1.SystemPriorityClasses() {
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("priority class %s: %w", class.Name, err)
		}
	}
	// A new cluster has none of the roles: create them without a read.
	for _, role := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		_, err := client.RbacV1().ClusterRoles().Create(ctx, role.DeepCopy(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = reconcileClusterRole(client, &role)
		}
		if err != nil {
			return fmt.Errorf("cluster role %s: %w", role.Name, err)
		}
	}
	for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding.DeepCopy(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = reconcileClusterRoleBinding(client, &binding)
		}
		if err != nil {
			return fmt.Errorf("cluster role binding %s: %w", binding.Name, err)
		}
	}
	return bootstrapNamespaced(client)
}

// bootstrapNamespaces creates the namespaces that every cluster has. Upstream's controller of system namespaces creates
// them too, but at some time after /readyz: a client that creates an object at once then gets "namespaces "default" not
// found". (The post-start hook of k8s.io/kubernetes/pkg/controlplane/controller/systemnamespaces only starts it.)
func bootstrapNamespaces(ctx context.Context, client kubernetes.Interface) error {
	for _, name := range [...]string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, metav1.NamespaceDefault} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}

func reconcileClusterRole(client kubernetes.Interface, role *rbacv1.ClusterRole) error {
	o := reconciliation.ReconcileRoleOptions{
		Role:    reconciliation.ClusterRoleRuleOwner{ClusterRole: role},
		Client:  reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()},
		Confirm: true,
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { _, err := o.Run(); return err })
}

func reconcileClusterRoleBinding(client kubernetes.Interface, binding *rbacv1.ClusterRoleBinding) error {
	o := reconciliation.ReconcileRoleBindingOptions{
		RoleBinding: reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding},
		Client:      reconciliation.ClusterRoleBindingClientAdapter{Client: client.RbacV1().ClusterRoleBindings()},
		Confirm:     true,
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { _, err := o.Run(); return err })
}

// bootstrapNamespaced creates the few roles in kube-system and kube-public, and those namespaces if they do
// not exist yet.
func bootstrapNamespaced(client kubernetes.Interface) error {
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, role := range roles {
			o := reconciliation.ReconcileRoleOptions{
				Role:    reconciliation.RoleRuleOwner{Role: &role},
				Client:  reconciliation.RoleModifier{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
				Confirm: true,
			}
			if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { _, err := o.Run(); return err }); err != nil {
				return fmt.Errorf("role %s/%s: %w", namespace, role.Name, err)
			}
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range bindings {
			o := reconciliation.ReconcileRoleBindingOptions{
				RoleBinding: reconciliation.RoleBindingAdapter{RoleBinding: &binding},
				Client:      reconciliation.RoleBindingClientAdapter{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
				Confirm:     true,
			}
			if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { _, err := o.Run(); return err }); err != nil {
				return fmt.Errorf("role binding %s/%s: %w", namespace, binding.Name, err)
			}
		}
	}
	return nil
}
