package rehearsal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// externalCluster is a cluster that the user provides. It cannot be forked: before each run, the harness
// writes objects until the cluster is in its initial state again. Other users may work in it. So the
// namespaces of the scenario must be empty at first; elsewhere the harness restores only what clients and
// users have written according to the record.
type externalCluster struct {
	harness    *Harness
	namespaces map[string]bool
	mirror     *mirror
	client     dynamic.Interface
	discovery  discovery.DiscoveryInterface
	following  context.Context
	stop       context.CancelFunc
	limit      flowcontrol.RateLimiter // of all requests except those of the clients under test
	initial    []initialObject         // initial objects that the harness created

	// initialState holds the objects that existed before the first run. It is nil until they are known; until
	// then nothing is restored.
	initialState map[string]store.KV
	// written holds the keys of objects that runs may have written since the last restore, and the writes.
	written map[string][]write
	created *created
	// runFinalizers are the finalizers that runs have added to objects. No controller removes them any more.
	runFinalizers map[string]bool
}

// initialObject is an initial object that the harness created.
type initialObject struct {
	to        dynamic.ResourceInterface
	key, name string
	uid       types.UID
	// definition: other objects are deleted with it, so it is not recreated between runs.
	definition bool
}

func newExternalCluster(a *Harness) *externalCluster {
	qps := cmp.Or(a.o.QPS, DefaultQPS)
	g := &externalCluster{
		limit:   flowcontrol.NewTokenBucketRateLimiter(qps, max(1, int(2*qps))),
		harness: a, mirror: newMirror(time.Now), namespaces: map[string]bool{},
		written: map[string][]write{}, created: newCreated(), runFinalizers: map[string]bool{fault.InterferenceFinalizer: true},
	}
	for _, ns := range a.o.Scenario.Namespaces() {
		g.namespaces[ns] = true
	}
	return g
}

// config returns a client configuration with the identity of the user's kubeconfig.
func (g *externalCluster) config(actor string) *rest.Config {
	c := rest.CopyConfig(g.harness.o.Target)
	c.UserAgent = "rehearse:" + actor
	c.RateLimiter, c.WarningHandler = g.limit, rest.NoWarnings{}
	return c
}

func (g *externalCluster) reject(format string, args ...any) error {
	return &ScenarioError{g.harness.o.Scenario.File + ": " + fmt.Sprintf(format, args...)}
}

// setUp connects to the cluster and checks that the namespaces of the scenario are empty.
func (g *externalCluster) setUp(ctx context.Context) (err error) {
	for namespace := range g.namespaces {
		if strings.HasPrefix(namespace, "kube-") {
			return g.reject("namespace %s belongs to the cluster, which may need what a rehearsal deletes there: use another namespace", namespace)
		}
	}
	if g.discovery, err = discovery.NewDiscoveryClientForConfig(g.config("setup")); err != nil {
		return err
	}
	if _, err = g.discovery.ServerVersion(); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	if g.client, err = dynamic.NewForConfig(g.config("setup")); err != nil {
		return err
	}
	g.following, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := g.follow(ctx); err != nil {
		return err
	}
	if err := g.clearFinalizers(ctx); err != nil {
		return err
	}
	return g.checkEmpty()
}

// clearFinalizers removes the interference finalizers of an earlier rehearsal that was killed before it
// removed them. Nothing else uses a finalizer of that name.
func (g *externalCluster) clearFinalizers(ctx context.Context) error {
	held, _, err := g.mirror.snapshot()
	if err != nil {
		return err
	}
	cleared := false
	for _, key := range slices.Sorted(maps.Keys(held)) {
		if !bytes.Contains(held[key].Value, []byte(fault.InterferenceFinalizer)) {
			continue
		}
		o, err := objectOf(held[key])
		if err != nil {
			return err
		}
		if !slices.Contains(o.GetFinalizers(), fault.InterferenceFinalizer) {
			continue
		}
		resource, _ := g.mirror.ResourceOf(key)
		to := resourceIn(g.client, g.mirror.version(resource), o.GetNamespace() != "", o.GetNamespace())
		if err := dropFinalizer(ctx, to, o.GetName(), o.GetUID()); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove finalizer %s, which an earlier rehearsal left, from %s %s: %w", fault.InterferenceFinalizer, resource, o.GetName(), err)
		}
		cleared = true
	}
	if cleared {
		g.mirror.catchUp(ctx, math.MaxInt64) // wait for the events: an object may be deleted now
	}
	return nil
}

// follow starts to follow each resource that the mirror does not follow yet.
func (g *externalCluster) follow(ctx context.Context) error {
	lists, err := discovery.ServerPreferredResources(g.discovery)
	if len(lists) == 0 {
		return err // like kubectl, skip what an unavailable aggregated API serves
	}
	for _, gvr := range watchable(lists) {
		if g.mirror.Directory(gvr.GroupResource()) != "" {
			continue
		}
		if err := g.mirror.follow(ctx, g.following, gvr, g.client.Resource(gvr)); err != nil {
			return err
		}
	}
	return nil
}

// aggregated reports whether an aggregated API server stores an object: the APIService of its group names a Service.
func (g *externalCluster) aggregated(key string) bool {
	resource, _ := g.mirror.ResourceOf(key)
	version := g.mirror.version(resource).Version
	service := g.mirror.object(keyOf(apiServices, "", version+"."+resource.Group))
	return bytes.Contains(service, []byte(`"service":{`))
}

// apiServices are the objects that name the API server of each group and version.
var apiServices = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}

// watchable returns the resources that can be listed and watched, without the bookkeeping resources.
func watchable(lists []*metav1.APIResourceList) (all []schema.GroupVersionResource) {
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			gvr := version.WithResource(r.Name)
			name := gvr.GroupResource().String()
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") ||
				history.Bookkeeping(name) || name == "ipaddresses.networking.k8s.io" {
				continue
			}
			all = append(all, gvr)
		}
	}
	return all
}

// checkEmpty rejects namespaces that contain objects of others: the run could not be distinguished from them.
func (g *externalCluster) checkEmpty() error {
	held, _, err := g.mirror.snapshot()
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(held)) {
		if !g.namespaces[namespaceOf(key)] {
			continue
		}
		o, err := objectOf(held[key])
		if err != nil {
			return err
		}
		if !isNamespaceDefault(o) {
			return g.reject("namespace %s of the cluster is not empty: it contains %s. A rehearsal deletes objects there: give the scenario its own namespace, or delete the object (kubectl delete -n %s %s %s)",
				o.GetNamespace(), describe(o), o.GetNamespace(), strings.ToLower(o.GetKind()), o.GetName())
		}
	}
	return nil
}

// describe returns the kind and name of an object, and its finalizers if it is being deleted.
func describe(o *unstructured.Unstructured) string {
	text := o.GetKind() + " " + o.GetName()
	if o.GetDeletionTimestamp() != nil {
		text += fmt.Sprintf(", which is being deleted and waits for its finalizers %v", o.GetFinalizers())
	}
	return text
}

// isNamespaceDefault reports whether a control plane creates the object in every namespace and recreates it:
// Kubernetes, OpenShift or a service mesh.
func isNamespaceDefault(o *unstructured.Unstructured) bool {
	name := o.GetName()
	switch o.GetKind() {
	case "ServiceAccount":
		return slices.Contains([]string{"default", "builder", "deployer"}, name)
	case "ConfigMap":
		return slices.Contains([]string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}, name)
	case "Secret":
		return o.GetAnnotations()["kubernetes.io/service-account.name"] != ""
	case "RoleBinding":
		return strings.HasPrefix(name, "system:")
	case "Service", "Endpoints", "EndpointSlice":
		return o.GetNamespace() == metav1.NamespaceDefault && name == "kubernetes"
	}
	return false
}

// createInitial creates an initial object. An existing object belongs to another user and is an error, except
// for a CustomResourceDefinition or a Namespace.
func (g *externalCluster) createInitial(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	definition := kind.Kind == "CustomResourceDefinition" || kind.Kind == "Namespace"
	m, err := g.harness.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	namespace := ""
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace = cmp.Or(o.GetNamespace(), metav1.NamespaceDefault)
	}
	made, err := to.Create(ctx, withoutServerFields(o), metav1.CreateOptions{FieldManager: "user"})
	switch {
	case apierrors.IsAlreadyExists(err) && definition:
		return nil
	case apierrors.IsAlreadyExists(err):
		return g.reject("%s %s already exists in the cluster, and a rehearsal would change it: use another name in the scenario, or delete the object", o.GetKind(), o.GetName())
	case err != nil:
		return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	key := keyOf(m.Resource.GroupResource(), namespace, o.GetName())
	g.created.add(key, made.GetUID())
	g.initial = append(g.initial, initialObject{to: to, key: key, name: o.GetName(), uid: made.GetUID(), definition: definition})
	return nil
}

// captureInitial records the objects that exist once the initial objects, and those that controllers create
// for them, are there.
func (g *externalCluster) captureInitial(ctx context.Context) error {
	if err := g.follow(ctx); err != nil { // kinds that the initial objects define
		return err
	}
	if err := g.awaitQuiet(ctx); err != nil {
		return err
	}
	found, _, err := g.mirror.snapshot()
	if err != nil {
		return err
	}
	if err := g.checkSteps(found); err != nil {
		return err
	}
	g.initialState = found
	return nil
}

// awaitQuiet waits until nothing has changed for timeouts.quiet in the namespaces of the scenario.
func (g *externalCluster) awaitQuiet(ctx context.Context) error {
	for {
		held, _, err := g.mirror.snapshot()
		if err != nil {
			return err
		}
		select {
		case <-time.After(g.harness.timeouts.quiet):
		case <-ctx.Done():
			return fmt.Errorf("wait until namespace %s of the cluster is quiescent: %w", strings.Join(slices.Sorted(maps.Keys(g.namespaces)), ", "), ctx.Err())
		}
		now, _, err := g.mirror.snapshot()
		if err != nil || g.revisionSum(held) == g.revisionSum(now) {
			return err
		}
	}
}

// checkSteps rejects steps that delete cluster-scoped objects which existed before: they cannot be restored
// exactly.
func (g *externalCluster) checkSteps(found map[string]store.KV) error {
	for i := range g.harness.o.Scenario.Steps {
		s := &g.harness.o.Scenario.Steps[i]
		if s.Kind != scenario.Delete || s.On.Namespace != "" {
			continue
		}
		gvr, namespaced, err := served(g.harness.mapper, s.On.Resource)
		if err != nil || namespaced {
			continue // the step itself will report it
		}
		_, there := found[keyOf(gvr.GroupResource(), "", s.On.Name)]
		if (there || s.On.Selector != "") && !g.isInitial(keyOf(gvr.GroupResource(), "", s.On.Name)) {
			return g.reject("line %d: %s: the object existed before, and cannot be restored exactly", s.Line, s)
		}
	}
	return nil
}

// newWorld restores the cluster. There is one run at a time.
func (g *externalCluster) newWorld(ctx context.Context, _ string, _ uint64) (*runWorld, error) {
	if err := g.restore(ctx); err != nil {
		return nil, err
	}
	return &runWorld{
		config: g.config, source: g.mirror, excluded: g.excluded, unrecorded: g.unrecorded, catchUp: g.mirror.catchUp, complete: g.mirror.complete, aggregated: g.aggregated, drop: g.drop,
		permit: g.permit, owns: g.owns, created: func(o history.Object) { g.created.add(keyOfObject(o), types.UID(o.UID)) },
	}, nil
}

// excluded reports whether an object does not belong to the run: it is not in a namespace of the scenario,
// and the harness did not create it.
func (g *externalCluster) excluded(key string) bool {
	namespace := namespaceOf(key)
	return !g.namespaces[namespace] && !g.isInitial(key) && (namespace != "" || g.initialState[key].Value != nil)
}

// unrecorded reports whether an object does not belong to the run once its creates have been answered: it is
// excluded, or it is cluster-scoped and others created it.
func (g *externalCluster) unrecorded(key string) bool {
	return g.excluded(key) || namespaceOf(key) == "" && g.created.uidOf(key) == ""
}

// isInitial reports whether an object is an initial one that the harness recreates.
func (g *externalCluster) isInitial(key string) bool {
	return slices.ContainsFunc(g.initial, func(o initialObject) bool { return o.key == key && !o.definition })
}

// drop records what a run has written, or may have written.
func (g *externalCluster) drop(record *history.Run, writes map[string][]write) {
	for i := range record.Steps {
		s := &record.Steps[i]
		if s.Kind != history.Request || !s.IsWrite() || s.Code/100 != 2 && s.Code != 0 || history.Bookkeeping(s.Resource) {
			continue
		}
		g.markWritten(keyOfObject(s.Object))
	}
	for key, all := range writes {
		g.written[key] = append(g.written[key], all...)
		for _, w := range all {
			had := finalizersOf(w.was)
			for _, f := range finalizersOf(w.is) {
				g.runFinalizers[f] = g.runFinalizers[f] || !slices.Contains(had, f)
			}
		}
	}
}

func finalizersOf(o map[string]any) []string {
	if o == nil {
		return nil
	}
	return (&unstructured.Unstructured{Object: o}).GetFinalizers()
}

// markWritten records that a run may have written an object.
func (g *externalCluster) markWritten(key string) {
	if _, ok := g.written[key]; !ok {
		g.written[key] = nil
	}
}

// close restores the cluster to its initial state and deletes the initial objects.
func (g *externalCluster) close() error {
	if g.stop == nil {
		return nil
	}
	defer g.stop()
	var err error
	if g.initialState != nil {
		err = g.restore(context.Background())
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.harness.timeouts.restore)
	defer cancel()
	return errors.Join(err, g.deleteCreated(ctx))
}

// deleteCreated deletes the initial objects that the harness created, in reverse order, and waits until they
// are gone.
func (g *externalCluster) deleteCreated(ctx context.Context) error {
	var errs []error
	for _, o := range slices.Backward(g.initial) {
		background := metav1.DeletePropagationBackground
		err := o.to.Delete(ctx, o.name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &o.uid}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete %s, which the rehearsal created: %w", o.name, err))
		}
	}
	return errors.Join(append(errs, g.awaitDeleted(ctx))...)
}

// awaitDeleted waits until no initial object that the harness created exists.
func (g *externalCluster) awaitDeleted(ctx context.Context) error {
	for {
		held, moved, err := g.mirror.snapshot()
		if err != nil {
			return err
		}
		left := ""
		for _, o := range g.initial {
			if kv, there := held[o.key]; there && uidOf(kv) == o.uid {
				left = o.key
			}
		}
		if left == "" {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("delete %s, which the rehearsal created: it is being deleted and still exists", strings.TrimPrefix(left, "/"))
		}
	}
}

// decode returns an object of the mirror, and the client for it.
func (g *externalCluster) decode(kv store.KV) (*unstructured.Unstructured, dynamic.ResourceInterface, error) {
	o, err := objectOf(kv)
	if err != nil {
		return nil, nil, err
	}
	to, err := resourceFor(g.client, g.harness.mapper, o)
	return o, to, err
}

func objectOf(kv store.KV) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	return o, o.UnmarshalJSON(kv.Value)
}

// uidOf returns the UID of an object of the mirror.
func uidOf(kv store.KV) types.UID {
	var o struct{ Metadata struct{ UID types.UID } }
	_ = json.Unmarshal(kv.Value, &o)
	return o.Metadata.UID
}

// namespaceOf returns the namespace in a key; "" for a cluster-scoped object.
func namespaceOf(key string) string {
	parts := strings.SplitN(strings.TrimPrefix(key, "/"), "/", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

// dropFinalizer removes the interference finalizer from an object and keeps the others, whoever added it.
func dropFinalizer(ctx context.Context, to dynamic.ResourceInterface, name string, uid types.UID) error {
	var err error
	for range 5 { // another user may write the object in between
		var o *unstructured.Unstructured
		if o, err = to.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if o.GetUID() != uid || !slices.Contains(o.GetFinalizers(), fault.InterferenceFinalizer) {
			return nil
		}
		others := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == fault.InterferenceFinalizer })
		patch, encodeErr := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": uid, "resourceVersion": o.GetResourceVersion(), "finalizers": append([]string{}, others...),
		}})
		if encodeErr != nil {
			return encodeErr
		}
		if _, err = to.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}
