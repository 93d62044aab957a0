package simulate

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/controller"
	"github.com/rehearse-k8s/rehearse/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/controller/jobs"
)

// system is where deploy/base puts things.
const system = "rehearse-system"

// manifests reads deploy/base/rbac.yaml.
func manifests(t *testing.T) []runtime.Object {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/base/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Object
	for part := range bytes.SplitSeq(data, []byte("\n---\n")) {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(part, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// rights are the rules as "namespace group/resource verb".
func rights(o runtime.Object) []string {
	var rules []rbacv1.PolicyRule
	namespace := ""
	switch o := o.(type) {
	case *rbacv1.ClusterRole:
		rules = o.Rules
	case *rbacv1.Role:
		rules, namespace = o.Rules, o.Namespace
	}
	var out []string
	for _, r := range rules {
		for _, g := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out = append(out, fmt.Sprintf("%s %s/%s %s", namespace, g, resource, verb))
				}
			}
		}
	}
	return out
}

// The manifests grant what the engine asks for at its start and nothing else.
func TestManifestsGrantWhatIsNeeded(t *testing.T) {
	var granted []string
	for _, o := range manifests(t) {
		granted = append(granted, rights(o)...)
	}
	var needed []string
	all := append(controller.StageOptions{Watch: true}.Access(), jobs.Options{}.Access()...)
	all = append(all, clonesets.Options{}.Access()...)
	for _, a := range withElection(all, &Election{Namespace: system}) {
		for _, verb := range a.Verbs {
			needed = append(needed, fmt.Sprintf("%s %s/%s %s", a.Namespace, a.Group, a.Resource, verb))
		}
	}
	for _, n := range needed {
		if !slices.Contains(granted, n) {
			t.Errorf("not granted: %s", n)
		}
	}
	for _, g := range granted {
		if !slices.Contains(needed, g) {
			t.Errorf("granted without need: %s", g)
		}
	}
}

// With the manifests' rights alone all works, with not one refusal; without any
// one of the roles the first thing that is said is what is missing.
func TestLeastPrivilege(t *testing.T) {
	w := newWorld(t, 2)
	account := w.asServiceAccount(manifests(t))
	r := w.replica(account, func(o *Options) {
		o.Election = shortElection()
		o.Election.Namespace = system
	})
	r.hears("This replica leads")
	w.awaitReadyNodes(2)
	w.pod("p", "node-0")
	w.awaitRunning("p")
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("the pod is gone", func() bool {
		list, err := w.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	r.end(nil)
	if log := r.log.String(); log != "" {
		t.Errorf("warnings: %s", log)
	}

	ctx, rbac := t.Context(), w.client.RbacV1()
	role, err := rbac.ClusterRoles().Get(ctx, "rehearse-simulate", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "nodes/status") })
	if _, err := rbac.ClusterRoles().Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := rbac.Roles("kube-node-lease").Delete(ctx, "rehearse-simulate", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`user "system:serviceaccount:rehearse-system:rehearse-simulate" lacks permissions on %s: the RBAC rules missing are `+
		`{apiGroups: [""], resources: [nodes/status], verbs: [update, patch]}, {apiGroups: [""], resources: [pods/status], verbs: [update, patch]}, `+
		`{apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [get, list, create, update]} in namespace kube-node-lease `+
		`(deploy/base/rbac.yaml has all that is needed)`, w.admin.Host)
	var message string
	t.Cleanup(func() {
		if message != want {
			t.Logf("got  %s\nwant %s", message, want)
		}
	})
	// The authorizer sees roles through an informer of its own, which may come to the change between
	// one question and the next.
	w.await("the rights are gone, and all of them are named", func() bool {
		message = fmt.Sprint(preflight(ctx, account, controller.StageOptions{}.Access()))
		return message == want
	})
}

// asServiceAccount applies the manifests and gives the configuration of a client
// that has their account's rights and no others.
func (w *world) asServiceAccount(objects []runtime.Object) *rest.Config {
	w.t.Helper()
	ctx, create := w.t.Context(), metav1.CreateOptions{}
	_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}, create)
	for _, o := range objects {
		if err != nil {
			break
		}
		switch o := o.(type) {
		case *corev1.ServiceAccount:
			_, err = w.client.CoreV1().ServiceAccounts(system).Create(ctx, o, create)
		case *rbacv1.ClusterRole:
			_, err = w.client.RbacV1().ClusterRoles().Create(ctx, o, create)
		case *rbacv1.ClusterRoleBinding:
			_, err = w.client.RbacV1().ClusterRoleBindings().Create(ctx, o, create)
		case *rbacv1.Role:
			_, err = w.client.RbacV1().Roles(o.Namespace).Create(ctx, o, create)
		case *rbacv1.RoleBinding:
			_, err = w.client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, create)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	config := rest.CopyConfig(w.admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + system + ":rehearse-simulate",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
	}
	w.await("the roles are known", func() bool {
		return preflight(ctx, config, withElection(controller.StageOptions{}.Access(), &Election{Namespace: system})) == nil
	})
	return config
}
