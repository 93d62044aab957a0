package simulate

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi"
)

// system is the namespace of deploy/base.
const system = "rehearse-system"

// role is a controller that runs in a Deployment of deploy/, with its own account.
type role struct {
	account, manifest string
	needs             []reconcile.Access
}

var (
	stageRole    = role{"rehearse-simulate", "base/rbac.yaml", stages.StageOptions{Watch: true}.Access()}
	jobRole      = role{"rehearse-job", "components/job/rbac.yaml", jobs.Options{}.Access()}
	cloneSetRole = role{"rehearse-cloneset", "components/cloneset/rbac.yaml", clonesets.Options{}.Access()}
	roles        = []role{stageRole, jobRole, cloneSetRole}
)

// manifests reads the accounts, roles and bindings of a role.
func (r role) manifests(t *testing.T) []runtime.Object {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/" + r.manifest)
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

// granted returns the rights that the bindings of all manifests give to an account, in the form of rights.
func granted(all []runtime.Object, account string) []string {
	var out []string
	has := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Name == account || s.Kind != rbacv1.ServiceAccountKind })
	}
	for _, o := range all {
		var ref rbacv1.RoleRef
		namespace := ""
		switch o := o.(type) {
		case *rbacv1.ClusterRoleBinding:
			if has(o.Subjects) {
				ref = o.RoleRef
			}
		case *rbacv1.RoleBinding:
			if has(o.Subjects) {
				ref, namespace = o.RoleRef, o.Namespace
			}
		}
		for _, o := range all {
			switch o := o.(type) {
			case *rbacv1.ClusterRole:
				if ref.Kind == "ClusterRole" && o.Name == ref.Name {
					out = append(out, rights(o.Rules, namespace)...)
				}
			case *rbacv1.Role:
				if ref.Kind == "Role" && o.Name == ref.Name && o.Namespace == namespace {
					out = append(out, rights(o.Rules, namespace)...)
				}
			}
		}
	}
	return out
}

// rights returns rules as "namespace group/resource verb".
func rights(rules []rbacv1.PolicyRule, namespace string) []string {
	var out []string
	for _, r := range rules {
		for _, g := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s/%s %s %s", namespace, g, resource, verb, strings.Join(r.ResourceNames, ","))))
				}
			}
		}
	}
	return out
}

// With the manifests of all roles applied, the account of each has exactly the permissions that its own
// controller checks at its start.
func TestManifestsGrantWhatIsNeeded(t *testing.T) {
	var all []runtime.Object
	for _, r := range roles {
		all = append(all, r.manifests(t)...)
	}
	for _, r := range roles {
		t.Run(r.account, func(t *testing.T) {
			granted := granted(all, r.account)
			var needed []string
			for _, a := range withElection(r.needs, &Election{Namespace: system}) {
				for _, verb := range a.Verbs {
					needed = append(needed, strings.TrimSpace(fmt.Sprintf("%s %s/%s %s %s", a.Namespace, a.Group, a.Resource, verb, a.Name)))
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
		})
	}
}

// TestManifestsOfKubelet: the component for the kubelet API grants what the server needs, and no more.
func TestManifestsOfKubelet(t *testing.T) {
	kubelet := role{account: stageRole.account, manifest: "components/kubelet/rbac.yaml"}
	granted := granted(kubelet.manifests(t), kubelet.account)
	var needed []string
	for _, a := range kubeletapi.Access() {
		for _, verb := range a.Verbs {
			needed = append(needed, strings.TrimSpace(fmt.Sprintf("%s %s/%s %s %s", a.Namespace, a.Group, a.Resource, verb, a.Name)))
		}
	}
	slices.Sort(granted)
	slices.Sort(needed)
	if !slices.Equal(granted, needed) {
		t.Errorf("granted: %q\nneeded: %q", granted, needed)
	}
}

// With the manifests' rights alone everything works without a forbidden request. Without any one of the
// roles, the first message names the missing permission. The API server forbids to this account what only the
// other roles need.
func TestLeastPrivilege(t *testing.T) {
	w := newWorld(t, 2)
	account := w.asServiceAccount(stageRole)
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
	for _, other := range []role{jobRole, cloneSetRole} {
		if err := preflight(ctx, account, other.needs); err == nil || !strings.Contains(err.Error(), "lacks permissions") {
			t.Errorf("the account of the stages may do what %s needs: %v", other.account, err)
		}
	}
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
		`(the manifests in deploy/ have a role for each controller)`, w.admin.Host)
	var message string
	t.Cleanup(func() {
		if message != want {
			t.Logf("got  %s\nwant %s", message, want)
		}
	})
	// The authorizer observes roles through its own informer, so a change may apply between two requests.
	w.await("the rights are gone, and all of them are named", func() bool {
		message = fmt.Sprint(preflight(ctx, account, stages.StageOptions{}.Access()))
		return message == want
	})
}

// asServiceAccount applies the manifests of a role and returns a client configuration with exactly the rights
// of its account.
func (w *world) asServiceAccount(r role) *rest.Config {
	w.t.Helper()
	ctx, create := w.t.Context(), metav1.CreateOptions{}
	_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}, create)
	if apierrors.IsAlreadyExists(err) {
		err = nil // a right of another role
	}
	for _, o := range r.manifests(w.t) {
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
		UserName: "system:serviceaccount:" + system + ":" + r.account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
	}
	w.await("the roles are known", func() bool {
		return preflight(ctx, config, withElection(r.needs, &Election{Namespace: system})) == nil
	})
	return config
}
