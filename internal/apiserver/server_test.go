package apiserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// outside returns a client over the TLS listener with its own certificate.
func outside(t *testing.T, s *apiserver.Server, user string, groups ...string) *rest.Config {
	t.Helper()
	cert, key, err := s.ClientCertificate(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return &rest.Config{Host: s.URL(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA(), CertData: cert, KeyData: key}}
}

func TestVersionIsComparable(t *testing.T) {
	info, err := client(t, shared).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	v, err := version.ParseSemantic(info.GitVersion)
	if err != nil {
		t.Fatalf("gitVersion %q: %v", info.GitVersion, err)
	}
	if v.Major() != 1 || v.Minor() != 36 || v.Patch() != 3 || v.BuildMetadata() != "rehearse.0.1.0" {
		t.Errorf("gitVersion %q, want v1.36.3+rehearse.0.1.0", info.GitVersion)
	}
	if info.Major != "1" || info.Minor != "36" {
		t.Errorf("major %q, minor %q", info.Major, info.Minor)
	}
}

func TestRequestsWithoutCredentialsAreRejected(t *testing.T) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(shared.CA())
	c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for _, path := range []string{"/api", "/healthz", "/version"} {
		resp, err := c.Get(shared.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("GET %s without credentials: %d, want 401", path, resp.StatusCode)
		}
	}
	// The in-process identity is a context value, which no header can set.
	r, _ := http.NewRequest(http.MethodGet, shared.URL()+"/api", nil)
	r.Header.Set("X-Remote-User", "system:apiserver")
	r.Header.Set("X-Remote-Group", "system:masters")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a claimed front-proxy user got %d, want 401", resp.StatusCode)
	}
}

func TestRBACHolds(t *testing.T) {
	unprivileged, err := kubernetes.NewForConfig(outside(t, shared, "jane"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second request is answered from the certificate cache
		if _, err := unprivileged.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a user without roles lists secrets: %v, want forbidden", err)
		}
	}
	admin, err := kubernetes.NewForConfig(outside(t, shared, "jane", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// TestBootstrapCreatesNamespaces: the hook on which /readyz waits creates the namespaces that every cluster has, so a client
// can create objects in them at once. Upstream's controller creates them some time later, and again only every minute.
func TestBootstrapCreatesNamespaces(t *testing.T) {
	s, err := start(t.Context(), t.TempDir(), apiserver.Memory{Worlds: store.New(store.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := client(t, s)
	namespaces := c.CoreV1().Namespaces()
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if _, err := namespaces.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	// The only one of them that can be deleted.
	if err := namespaces.Delete(t.Context(), "kube-node-lease", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone, err := namespaces.Get(t.Context(), "kube-node-lease", metav1.GetOptions{})
	if err == nil {
		gone.Spec.Finalizers = nil
		_, err = namespaces.Finalize(t.Context(), gone, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "kube-node-lease", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the namespace still exists: %v", err)
	}
	if err := apiserver.Bootstrap(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "kube-node-lease", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestBootstrapMatchesUpstream compares the objects of our hook with upstream's policy.
func TestBootstrapMatchesUpstream(t *testing.T) {
	c := client(t, shared)
	for _, want := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		got, err := c.RbacV1().ClusterRoles().Get(t.Context(), want.Name, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		// Aggregated roles get their rules from a controller.
		if want.AggregationRule == nil && !equality.Semantic.DeepEqual(got.Rules, want.Rules) {
			t.Errorf("cluster role %s differs from upstream's", want.Name)
		}
	}
	for _, want := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		got, err := c.RbacV1().ClusterRoleBindings().Get(t.Context(), want.Name, metav1.GetOptions{})
		if err != nil || !equality.Semantic.DeepEqual(got.Subjects, want.Subjects) || got.RoleRef != want.RoleRef {
			t.Errorf("cluster role binding %s: %v", want.Name, err)
		}
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, want := range roles {
			if _, err := c.RbacV1().Roles(namespace).Get(t.Context(), want.Name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, want := range bindings {
			if _, err := c.RbacV1().RoleBindings(namespace).Get(t.Context(), want.Name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range []string{"system-node-critical", "system-cluster-critical"} {
		if _, err := c.SchedulingV1().PriorityClasses().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestImpersonationInProcess: the handler chain of the in-process transport supports impersonation, and an
// impersonated user has only that user's rights.
func TestImpersonationInProcess(t *testing.T) {
	config := shared.RESTConfig("test")
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("jane lists secrets: %v, want forbidden", err)
	}
}

// TestNodePorts covers the allocator that uses an etcd client.
func TestNodePorts(t *testing.T) {
	services := client(t, shared).CoreV1().Services("default")
	make1 := func(name string, nodePort int32) (*corev1.Service, error) {
		return services.Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}}},
		}, metav1.CreateOptions{})
	}
	seen := map[int32]bool{}
	for _, name := range []string{"a", "b", "c"} {
		s, err := make1("nodeport-"+name, 0)
		if err != nil {
			t.Fatal(err)
		}
		port := s.Spec.Ports[0].NodePort
		if port < 30000 || port > 32767 || seen[port] {
			t.Errorf("service %s got node port %d (already given: %v)", name, port, seen)
		}
		seen[port] = true
	}
	var taken int32
	for taken = range seen {
		break
	}
	if _, err := make1("nodeport-taken", taken); !apierrors.IsInvalid(err) {
		t.Errorf("a node port given twice: %v, want invalid", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := services.Delete(t.Context(), "nodeport-"+name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := make1("nodeport-again", taken); err != nil {
		t.Errorf("a released node port: %v", err)
	}
}

// TestManagedFieldsAndApply tests server-side apply with two owners.
func TestManagedFieldsAndApply(t *testing.T) {
	maps := client(t, shared).CoreV1().ConfigMaps("default")
	apply := func(manager, data string, force bool) (*corev1.ConfigMap, error) {
		return maps.Patch(t.Context(), "applied", types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{`+data+`}}`),
			metav1.PatchOptions{FieldManager: manager, Force: &force})
	}
	if _, err := apply("one", `"a":"1"`, false); err != nil {
		t.Fatal(err)
	}
	if _, err := apply("two", `"a":"2"`, false); !apierrors.IsConflict(err) {
		t.Errorf("another owner's field: %v, want conflict", err)
	}
	m, err := apply("two", `"b":"2"`, false)
	if err != nil {
		t.Fatal(err)
	}
	if m.Data["a"] != "1" || m.Data["b"] != "2" || len(m.ManagedFields) != 2 {
		t.Errorf("after two owners: %v with %d managers", m.Data, len(m.ManagedFields))
	}
}

// TestInformerOverBothTransports uses client-go's watch-list informers.
func TestInformerOverBothTransports(t *testing.T) {
	writer := client(t, shared)
	for name, config := range map[string]*rest.Config{
		"in-process": shared.RESTConfig("test"),
		"socket":     outside(t, shared, "admin", "system:masters"),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					return c.CoreV1().ConfigMaps("default").List(ctx, o)
				},
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					return c.CoreV1().ConfigMaps("default").Watch(ctx, o)
				},
			}, c)
			_, _, events, done := watchtools.NewIndexerInformerWatcherWithLogger(testLogger(t), lw, &corev1.ConfigMap{})
			go func() {
				<-ctx.Done()
				events.Stop()
			}()
			object := "informed-" + name
			if _, err := writer.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: object}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for e := range events.ResultChan() {
				if m, ok := e.Object.(*corev1.ConfigMap); ok && m.Name == object {
					break
				}
			}
			cancel()
			<-done
		})
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "is in use; choose another one with --port") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line that names the port and the flag", err)
	}
}

func TestDamagedCertificate(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := apiserver.Start(t.Context(), apiserver.Options{Dir: dir, Backend: apiserver.Memory{Worlds: store.New(store.Options{})}})
	if err == nil || !strings.Contains(err.Error(), "ca.crt is damaged") {
		t.Errorf("error %v, want one that names the damaged file", err)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "ca.crt")); string(data) != "not a certificate" {
		t.Error("the damaged file was overwritten: it may be all that a user has left")
	}
}

func TestKeysAreForTheirOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := start(ctx, dir, apiserver.Memory{Worlds: store.New(store.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	defer s.Stop()
	files, err := os.ReadDir(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", f.Name(), info.Mode().Perm())
		}
	}
	if info, _ := os.Stat(filepath.Join(dir, "pki")); info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, want 0700", info.Mode().Perm())
	}
}
