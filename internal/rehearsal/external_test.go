//go:build unix

package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// existingCluster starts a cluster of another user, with objects in it.
func existingCluster(t *testing.T) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	s, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := s.RESTConfig("other-user")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create(t, client.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	create(t, client.CoreV1().ConfigMaps("elsewhere").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: map[string]string{"a": "b"}})
	create(t, client.CoreV1().ServiceAccounts("default").Create, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})

	// The API server itself writes these ConfigMaps some time after it is ready. They would look like leftovers of a run.
	for _, own := range []string{"extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"} {
		lw := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "kube-system", fields.OneTermEqualSelector("metadata.name", own))
		if _, err := watchtools.UntilWithSync(t.Context(), lw, &corev1.ConfigMap{}, nil, func(watch.Event) (bool, error) { return true, nil }); err != nil {
			t.Fatal(err)
		}
	}
	return config, client
}

func create[O any](t *testing.T, do func(context.Context, O, metav1.CreateOptions) (O, error), o O) O {
	t.Helper()
	made, err := do(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// openExternal opens a harness for an external cluster.
func openExternal(t *testing.T, config *rest.Config, text string) (*Harness, error) {
	t.Helper()
	s, err := scenario.Read("copies.yaml", []byte(text), nil)
	if err == nil {
		err = s.SetCommand([]string{os.Args[0]})
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Options{Scenario: s, Dir: filepath.Join(t.TempDir(), "harness"), Target: config})
	if err == nil {
		a.timeouts.quiet, a.timeouts.end, a.timeouts.finalizer = 300*time.Millisecond, 3*time.Second, 100*time.Millisecond
	}
	return a, err
}

// TestExternalCluster: in an external cluster faults have the same effects, each run begins in the same
// state, and Close leaves the objects that existed before and no others.
func TestExternalCluster(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	config, client := existingCluster(t)
	before := objects(t, client)
	changing := strings.Replace(copyScenario, "  invariants:", `  - patch: {resource: configmaps, namespace: default, name: settings, patch: {data: {k: other}}}
  - delete: {resource: configmaps, namespace: default, name: spare}
  invariants:`, 1)
	changing = strings.Replace(changing, "metadata: {name: copy-b, namespace: default}", "metadata: {name: copy-b, namespace: default, finalizers: [example.com/unused]}", 1)
	changing = strings.Replace(changing, "controllers: []", `controllers: [], objects: [
    {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, data: {k: v}}},
    {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: spare, namespace: default}, data: {k: v}}}]`, 1)
	a, err := openExternal(t, config, changing)
	if err != nil {
		t.Fatal(err)
	}
	for _, faults := range [][]string{
		nil,
		{"crash-before actor=copier verb=create object=default/copy-b"},
		{"finalizer actor=copier verb=create object=default/copy-a for=200ms"},
		{"lag actor=copier resource=configmaps nth=1 for=300ms"},
	} {
		run := play(t, a, faults...)
		if run.Failure != nil {
			t.Errorf("%v: %+v", faults, run.Failure)
		}
		made := writes(run)
		copies := slices.ContainsFunc(made, func(s history.Step) bool { return s.Actor == "copier" && s.Name == "copy-b" && len(s.Changes) == 1 })
		settings := slices.ContainsFunc(made, func(s history.Step) bool { return s.Actor == "user" && s.Name == "settings" && len(s.Changes) == 1 })
		spare := slices.ContainsFunc(run.Steps, func(s history.Step) bool { return s.Verb == "delete" && s.Name == "spare" && s.Code == 200 })
		if !copies || !settings || !spare {
			t.Errorf("%v: the record lacks a copy (%v) or what the user did (%v, %v)", faults, copies, settings, spare)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if after := objects(t, client); !slices.Equal(before, after) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// objects lists the ConfigMaps and Secrets of a cluster.
func objects(t *testing.T, client kubernetes.Interface) (all []string) {
	t.Helper()
	maps, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maps.Items {
		m := &maps.Items[i]
		all = append(all, "configmap "+m.Namespace+"/"+m.Name+" "+string(m.UID)+" "+m.ResourceVersion)
	}
	secrets, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		all = append(all, "secret "+secrets.Items[i].Namespace+"/"+secrets.Items[i].Name)
	}
	return all
}

// TestExternalObjects: Open fails if a namespace of the scenario contains objects of others, and deletes what
// it has created before it failed.
func TestExternalObjects(t *testing.T) {
	config, client := existingCluster(t)
	role := `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: theirs}}`
	create(t, client.RbacV1().ClusterRoles().Create, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
	with := func(old, text string) string { return strings.Replace(copyScenario, old, text, 1) }
	checkRejected := func(text, why string) {
		t.Helper()
		before := objects(t, client)
		var e *ScenarioError
		if _, err := openExternal(t, config, text); !errors.As(err, &e) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %s", err, why)
		}
		if after := objects(t, client); !slices.Equal(before, after) {
			t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
	}
	checkRejected(strings.ReplaceAll(copyScenario, "namespace: default", "namespace: elsewhere"), "namespace elsewhere of the cluster is not empty: it contains ConfigMap mine")
	checkRejected(strings.ReplaceAll(copyScenario, "namespace: default", "namespace: kube-system"), "namespace kube-system belongs to the cluster")
	checkRejected(with("controllers: []", `controllers: [], objects: [{object: {apiVersion: v1, kind: ConfigMap, metadata: {name: fresh, namespace: default}}}, {object: `+role+`}]`), "ClusterRole theirs already exists in the cluster")
	checkRejected(with("  invariants:", "  - delete: {resource: clusterroles.rbac.authorization.k8s.io, name: theirs}\n  invariants:"), "the object existed before")
	create(t, client.CoreV1().ConfigMaps("default").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "going", Finalizers: []string{"example.com/f"}}})
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	checkRejected(copyScenario, "ConfigMap going, which is being deleted and waits for its finalizers [example.com/f]")
}

// failing is a transport through which one resource cannot be listed.
type failing struct{ http.RoundTripper }

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/replicasets") {
		return nil, errors.New("its conversion webhook is down")
	}
	return f.RoundTripper.RoundTrip(r)
}

// TestExternalUnknownState: the harness restores nothing while the initial state is unknown.
func TestExternalUnknownState(t *testing.T) {
	config, client := existingCluster(t)
	create(t, client.CoreV1().ConfigMaps("default").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "precious"}})
	before := objects(t, client)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return failing{next} })
	if _, err := openExternal(t, config, copyScenario); err == nil || !strings.Contains(err.Error(), "list replicasets.apps: ") {
		t.Error(err)
	}
	if after := objects(t, client); !slices.Equal(before, after) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// failsOnce fails the first delete request of each path.
type failsOnce struct {
	mu     sync.Mutex
	failed map[string]bool
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f *failsOnce) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	fails := r.Method == http.MethodDelete && !f.failed[r.URL.Path]
	f.failed[r.URL.Path] = f.failed[r.URL.Path] || fails
	f.mu.Unlock()
	if fails {
		return nil, errors.New("the server is overloaded")
	}
	return next.RoundTrip(r)
}

// TestExternalFailedDelete: a delete request that failed is sent again.
func TestExternalFailedDelete(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	config, _ := existingCluster(t)
	transport := &failsOnce{failed: map[string]bool{}}
	// Several clients are created from the config, also while others send requests: each has a transport of its own.
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(r *http.Request) (*http.Response, error) { return transport.send(next, r) })
	})
	a, err := openExternal(t, config, copyScenario)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if run := play(t, a); run.Failure != nil {
			t.Errorf("%+v", run.Failure)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if len(transport.failed) == 0 {
		t.Error("no delete request failed")
	}
}

// TestExternalSettle: a run is not quiescent while the mirror has not observed what the user did.
func TestExternalSettle(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	config, _ := existingCluster(t)
	from, to := strings.Index(copyScenario, "  - wait:"), strings.Index(copyScenario, "  invariants:")
	s, err := scenario.Read("copies.yaml", []byte(copyScenario[:from]+copyScenario[to:strings.Index(copyScenario, "    eventually:")]), nil)
	if err == nil {
		err = s.SetCommand([]string{"sh", "-c", `sleep 1; exec "$0"`, os.Args[0]})
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Options{Scenario: s, Dir: filepath.Join(t.TempDir(), "harness"), Target: config})
	if err != nil {
		t.Fatal(err)
	}
	a.timeouts.quiet = 300 * time.Millisecond
	run := play(t, a)
	if !slices.ContainsFunc(writes(run), func(s history.Step) bool { return s.Actor == "copier" && len(s.Changes) == 1 }) {
		t.Errorf("the run was over before the mirror observed what the client wrote: %d steps", len(run.Steps))
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestExternalOtherActors: objects that others create during runs stay if they belong to an initial object or
// are cluster-scoped; what runs changed in objects of others is reverted; finalizers of others are not
// removed.
func TestExternalOtherActors(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	config, client := existingCluster(t)
	ctx := t.Context()
	create(t, client.CoreV1().Nodes().Create, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
	touching := strings.Replace(copyScenario, "  invariants:", `  - patch: {resource: nodes, name: theirs, patch: {metadata: {labels: {touched: "yes"}}}}
  - patch: {resource: nodes, name: joined, patch: {metadata: {labels: {touched: "yes"}}}}
  - create: {object: {apiVersion: v1, kind: Node, metadata: {name: ours}}}
  invariants:`, 1)
	touching = strings.Replace(touching, "controllers: []", `controllers: [], objects: [{object: {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: app, namespace: default},
    spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}}]`, 1)
	a, err := openExternal(t, config, touching)
	if err != nil {
		t.Fatal(err)
	}
	create(t, client.CoreV1().Nodes().Create, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joined"}})
	app, err := client.AppsV1().ReplicaSets("default").Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := create(t, client.CoreV1().ConfigMaps("default").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "app-1",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}}})
	create(t, client.CoreV1().ConfigMaps("default").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "app-1-settings",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owned, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}})
	for range 2 {
		if run := play(t, a); run.Failure != nil {
			t.Errorf("%+v", run.Failure)
		}
		if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "app-1-settings", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	guarded := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "guarded", Finalizers: []string{"cloud.example.com/balancer"}}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	create(t, client.CoreV1().Services("default").Create, guarded)
	a.timeouts.restore = 5 * time.Second
	if err := a.Close(); err == nil || !strings.Contains(err.Error(), "Service guarded, which is being deleted and waits for its finalizers [cloud.example.com/balancer]") {
		t.Error(err)
	}
	for name, want := range map[string]string{"theirs": "no", "joined": "no", "ours": "gone"} {
		is, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		got := cmp.Or(is.Labels["touched"], "no")
		if apierrors.IsNotFound(err) {
			got = "gone"
		}
		if got != want {
			t.Errorf("node %s: %s, want %s", name, got, want)
		}
	}
}

// TestExcluded: an object does not belong to the run if it existed before or is in another namespace, unless
// the harness created it.
func TestExcluded(t *testing.T) {
	g := &externalCluster{
		namespaces: map[string]bool{"mine": true}, initialState: map[string]store.KV{"/nodes/n": {Value: []byte("{}")}, "/classes.example.com/ours": {Value: []byte("{}")}},
		initial: []initialObject{{key: "/classes.example.com/ours"}},
	}
	for key, want := range map[string]bool{
		"/pods/mine/a": false, "/pods/other/a": true, "/nodes/n": true, "/nodes/new": false, "/classes.example.com/ours": false,
	} {
		if got := g.excluded(key); got != want {
			t.Errorf("%s: %t", key, got)
		}
	}
}
