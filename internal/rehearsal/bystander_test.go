//go:build unix

package rehearsal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// meddler is a client with all rights that uses them: it deletes, changes and adopts objects of others, and
// creates its own objects among theirs.
func meddler(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	// Faults may fail a request, so the client repeats all of them.
	for try := 0; ; try++ {
		meddle(ctx, client)
		done := object("v1", "ConfigMap", "default", fmt.Sprintf("done-%d", try))
		_, _ = client.Resource(things["configmaps"]).Namespace("default").Create(ctx, done, metav1.CreateOptions{})
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // a process of its own
	}
}

// things are the resources of bystanders that a meddler changes.
var things = map[string]schema.GroupVersionResource{
	"namespaces":                {Version: "v1", Resource: "namespaces"},
	"configmaps":                {Version: "v1", Resource: "configmaps"},
	"secrets":                   {Version: "v1", Resource: "secrets"},
	"persistentvolumes":         {Version: "v1", Resource: "persistentvolumes"},
	"persistentvolumeclaims":    {Version: "v1", Resource: "persistentvolumeclaims"},
	"nodes":                     {Version: "v1", Resource: "nodes"},
	"leases":                    {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	"serviceaccounts":           {Version: "v1", Resource: "serviceaccounts"},
	"clusterroles":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"customresourcedefinitions": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// deletes are the objects that a meddler tries to delete.
var deletes = []history.Object{
	{Resource: "namespaces", Name: "elsewhere"}, {Resource: "customresourcedefinitions", Name: "things.example.com"},
	{Resource: "persistentvolumes", Name: "theirs"}, {Resource: "persistentvolumeclaims", Namespace: "elsewhere", Name: "theirs"},
	{Resource: "nodes", Name: "theirs"}, {Resource: "configmaps", Namespace: "elsewhere", Name: "mine"}, {Resource: "clusterroles", Name: "theirs"},
	{Resource: "namespaces", Name: "missing"},
}

func meddle(ctx context.Context, client dynamic.Interface) {
	in := func(name, namespace string) dynamic.ResourceInterface {
		if namespace == "" {
			return client.Resource(things[name])
		}
		return client.Resource(things[name]).Namespace(namespace)
	}
	for _, o := range deletes {
		_ = in(o.Resource, o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
	}
	for _, name := range []string{"persistentvolumes", "customresourcedefinitions"} {
		_ = in(name, "").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	_ = in("configmaps", "elsewhere").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	patch := func(name, namespace, object, text string) {
		_, _ = in(name, namespace).Patch(ctx, object, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "meddler"})
	}
	patch("configmaps", "elsewhere", "mine", `{"metadata":{"labels":{"meddled":"yes"}},"data":{"a":"meddled","more":"meddled"}}`)
	patch("configmaps", "elsewhere", "guarded", `{"metadata":{"finalizers":["meddler.example.com/f"]},"data":null}`)
	patch("namespaces", "", "elsewhere", `{"metadata":{"labels":{"meddled":"yes"},"annotations":{"meddled":"yes"}}}`)
	patch("persistentvolumes", "", "theirs", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	patch("nodes", "", "joined", `{"metadata":{"labels":{"meddled":"yes"}}}`)
	patch("nodes", "", "theirs", `{"spec":{"unschedulable":true,"taints":[{"key":"meddled","effect":"NoExecute"}]}}`)
	_, _ = in("clusterroles", "").Create(ctx, object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "meddlers"), metav1.CreateOptions{})
	owner, err := in("configmaps", "elsewhere").Create(ctx, object("v1", "ConfigMap", "elsewhere", "meddlers"), metav1.CreateOptions{})
	if err == nil {
		patch("configmaps", "elsewhere", "adopted", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"meddlers","uid":%q}]}}`, owner.GetUID()))
	}
	_, _ = in("leases", "elsewhere").Create(ctx, object("coordination.k8s.io/v1", "Lease", "elsewhere", "meddlers"), metav1.CreateOptions{})
	_ = in("leases", "elsewhere").Delete(ctx, "theirs", metav1.DeleteOptions{})
	_, _ = in("nodes", "").Create(ctx, object("v1", "Node", "", "meddlers"), metav1.CreateOptions{})
	_ = in("nodes", "").Delete(ctx, "meddlers", metav1.DeleteOptions{})
}

// bystanders starts a cluster that others use: it has namespaces with objects, volumes, nodes, kinds, and
// objects with finalizers.
func bystanders(t *testing.T) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	config, client := existingCluster(t)
	create(t, client.CoreV1().ConfigMaps("elsewhere").Create, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "guarded", Finalizers: []string{"their.example.com/f", "their.example.com/g"}}, Data: map[string]string{"k": "v"}})
	create(t, client.CoreV1().ConfigMaps("elsewhere").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "adopted"}})
	create(t, client.CoreV1().Secrets("elsewhere").Create, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "untouched"}, StringData: map[string]string{"password": "hunter2"}})
	create(t, client.CoreV1().PersistentVolumes().Create, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, PersistentVolumeReclaimPolicy: "Retain",
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}}})
	create(t, client.CoreV1().PersistentVolumeClaims("elsewhere").Create, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}})
	create(t, client.CoreV1().Nodes().Create, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
	all, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lease := object("coordination.k8s.io/v1", "Lease", "elsewhere", "theirs")
	if _, err := all.Resource(things["leases"]).Namespace("elsewhere").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "theirs")
	if _, err := all.Resource(things["clusterroles"]).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Resource(things["customresourcedefinitions"]).Create(t.Context(), definition(t), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return config, client
}

// definition returns a CustomResourceDefinition of another user.
func definition(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	preserve := true
	u, err := toUnstructured(&apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: "Namespaced", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// everything returns the objects of a cluster, by resource and name.
func everything(t *testing.T, config *rest.Config) map[string]*unstructured.Unstructured {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for name, gvr := range things {
		list, err := client.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if o.GetKind() == "ServiceAccount" || o.GetNamespace() == "kube-system" || strings.HasPrefix(o.GetName(), "system:") || o.GetLabels()["kubernetes.io/bootstrapping"] != "" {
				continue // the server creates its own objects at any time
			}
			all[name+" "+o.GetNamespace()+"/"+o.GetName()] = o
		}
	}
	return all
}

const meddling = `
apiVersion: rehearse-k8s.github.io/v1alpha1
kind: Scenario
metadata: {name: meddling}
spec:
  cluster: {nodes: 0, controllers: []}
  clients: [{name: meddler}]
  steps:
  - create: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {password: hunter2}}}
  - create: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: meddlers-too, namespace: elsewhere, finalizers: [user.example.com/f]}}}
  - patch: {resource: configmaps, namespace: elsewhere, name: guarded, patch: {data: {user: "yes"}}}
  - create: {object: {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}, spec: {containers: [
      {name: a, image: a, env: [{name: PASSWORD, value: hunter2}], args: ["--password=hunter2", --verbose]}]}}}
  - create: {object: {apiVersion: v1, kind: Secret, metadata: {name: a, namespace: default}, stringData: {password: hunter2}}}
  - wait: {oracle: Exists, with: {resource: configmaps, name: done-1}, within: 20s}
  invariants: {endsVary: true}
`

// meddlingScenario opens a harness whose scenario has its objects in default alone: the steps in elsewhere
// are added after Open, so that the harness does not take that namespace as its own.
func meddlingScenario(t *testing.T, config *rest.Config, sent *requests) *Harness {
	t.Helper()
	t.Setenv("LIVE_TEST_CLIENT", "meddler")
	s, err := scenario.Read("meddling.yaml", []byte(meddling), nil)
	if err == nil {
		err = s.SetCommand([]string{os.Args[0]})
	}
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := s.Steps[1:3]
	s.Steps = slices.Delete(slices.Clone(s.Steps), 1, 3)
	target := rest.CopyConfig(config)
	target.Wrap(func(next http.RoundTripper) http.RoundTripper { return sent.through(next) })
	a, err := Open(t.Context(), Options{Scenario: s, Dir: filepath.Join(t.TempDir(), "harness"), Target: target})
	if err != nil {
		t.Fatal(err)
	}
	s.Steps = slices.Insert(s.Steps, 1, elsewhere...)
	a.timeouts.quiet, a.timeouts.end, a.timeouts.finalizer, a.timeouts.writes = 100*time.Millisecond, 3*time.Second, 100*time.Millisecond, time.Second
	a.timeouts.restore = 20 * time.Second
	return a
}

// requests records the requests of the harness itself, in order: "DELETE /api/v1/nodes/a".
type requests struct {
	mu  sync.Mutex
	all []string
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (s *requests) through(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		s.all = append(s.all, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// bystander writes into its own objects during runs, and updates expected with what they must contain at the
// end.
func bystander(ctx context.Context, client kubernetes.Interface, seed uint64, expected map[string]*unstructured.Unstructured) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	for n := 0; ctx.Err() == nil; n++ {
		name := []string{"mine", "guarded", "adopted"}[rnd.IntN(3)]
		value := fmt.Sprintf("%d", n)
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"their.example.com/n":%q}},"data":{"theirs":%q}}`, value, value)
		write := context.WithoutCancel(ctx)
		if _, err := client.CoreV1().ConfigMaps("elsewhere").Patch(write, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "bystander"}); err == nil {
			o := expected["configmaps elsewhere/"+name]
			_ = unstructured.SetNestedField(o.Object, value, "metadata", "annotations", "their.example.com/n")
			_ = unstructured.SetNestedField(o.Object, value, "data", "theirs")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(20+rnd.IntN(100)) * time.Millisecond):
		}
	}
}

// cancelOnce calls cancel once a ConfigMap exists.
func cancelOnce(t *testing.T, client kubernetes.Interface, name string, cancel func()) {
	t.Helper()
	w, err := client.CoreV1().ConfigMaps("elsewhere").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer w.Stop()
		<-w.ResultChan()
		cancel()
	}()
}

// same compares two objects without the fields that every write changes.
func same(a, b *unstructured.Unstructured) bool {
	bare := func(o *unstructured.Unstructured) string {
		o = o.DeepCopy()
		for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		data, _ := json.Marshal(o.Object)
		return string(data)
	}
	return bare(a) == bare(b)
}

// TestBystanders: whatever a client does, and whenever the rehearsal is interrupted, the cluster finally
// contains every object that existed before, with the writes of its owners, and no other object.
func TestBystanders(t *testing.T) {
	for seed, c := range []struct {
		interrupt time.Duration
		once      string // name of a ConfigMap in elsewhere: interrupt when it exists
		faults    []string
	}{
		{},
		{faults: []string{"crash-after actor=meddler verb=patch object=elsewhere/guarded", "label actor=meddler verb=patch object=joined", "delete actor=meddler verb=create object=default/done-0", "label actor=meddler verb=create object=default/done-1", "delete actor=meddler verb=create object=elsewhere/meddlers"}},
		{faults: []string{"delete actor=meddler verb=patch object=elsewhere/mine", "finalizer actor=meddler verb=patch object=elsewhere/mine", "label actor=meddler verb=patch object=elsewhere", "finalizer actor=meddler verb=create object=elsewhere/meddlers for=20s"}, interrupt: 1500 * time.Millisecond},
		{faults: []string{"lost-answer actor=meddler verb=create object=elsewhere/meddlers", "finalizer actor=meddler verb=create object=default/done-0 for=20s"}, interrupt: 900 * time.Millisecond},
		{interrupt: 400 * time.Millisecond},
		{once: "meddlers-too"},
		{once: "meddlers", faults: []string{"finalizer actor=meddler verb=create object=elsewhere/meddlers for=20s"}},
	} {
		if testing.Short() && seed != 1 && seed != 6 {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			config, client := bystanders(t)
			sent := &requests{}
			a := meddlingScenario(t, config, sent)
			create(t, client.CoreV1().Nodes().Create, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joined"}}) // after the initial state was captured
			before := everything(t, config)
			expected := map[string]*unstructured.Unstructured{}
			for key, o := range before {
				expected[key] = o.DeepCopy()
			}
			editing, stop := context.WithCancel(t.Context())
			edited := make(chan struct{})
			go func() {
				defer close(edited)
				bystander(editing, client, uint64(seed), expected) //nolint:gosec // an index
			}()
			faults, err := fault.ParseAll(c.faults)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if c.interrupt > 0 {
				time.AfterFunc(c.interrupt, cancel)
			}
			if c.once != "" {
				cancelOnce(t, client, c.once, cancel)
			}
			interrupted := c.interrupt > 0 || c.once != ""
			out, err := a.Play(ctx, sim.Plan{Seed: 1, Faults: faults, Learn: len(faults) == 0})
			cancel()
			if err != nil && !interrupted {
				t.Error(err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			stop()
			<-edited
			after := everything(t, config)
			for _, key := range slices.Sorted(maps.Keys(expected)) {
				is := after[key]
				switch {
				case is == nil:
					t.Errorf("%s is gone", key)
				case !same(is, expected[key]):
					t.Errorf("%s is\n%v\nwant\n%v", key, is.Object, expected[key].Object)
				}
			}
			for _, key := range slices.Sorted(maps.Keys(after)) {
				if expected[key] == nil {
					t.Errorf("%s is there: %v", key, after[key].Object["metadata"])
				}
			}
			if before["secrets elsewhere/untouched"].GetResourceVersion() != after["secrets elsewhere/untouched"].GetResourceVersion() {
				t.Error("an object that no actor changed was written")
			}
			if out != nil {
				if acted := checkInterference(t, out.Run); !interrupted && len(c.faults) > 1 && acted != 2 {
					t.Errorf("faults acted on %d of two objects of the run", acted)
				}
			}
			if !interrupted && out != nil {
				checkOrder(t, sent.all)
				checkDenied(t, out.Run)
				checkPrivate(t, out.Run)
			}
		})
	}
}

// checkDenied: the record shows each delete of another user's object as forbidden, and of a missing object as
// not found.
func checkDenied(t *testing.T, run *history.Run) {
	t.Helper()
	codes := map[string]int{}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Actor == "meddler" && (s.Verb == "delete" || s.Verb == "deletecollection") && s.Code != 0 {
			resource, _, _ := strings.Cut(s.Resource, ".")
			codes[s.Verb+" "+resource+" "+s.Key()] = s.Code
		}
	}
	for _, o := range deletes {
		want := 403
		if o.Name == "missing" {
			want = 404
		}
		if got := codes["delete "+o.Resource+" "+o.Key()]; got != want {
			t.Errorf("delete %s: %d, want %d", o, got, want)
		}
	}
	for key, want := range map[string]int{
		"deletecollection persistentvolumes ": 403, "deletecollection customresourcedefinitions ": 403, "deletecollection configmaps elsewhere/": 403, "delete nodes meddlers": 200,
	} {
		if got := codes[key]; got != want {
			t.Errorf("%s: %d, want %d (of %v)", key, got, want, codes)
		}
	}
}

// checkInterference: faults write, as another user, only objects that the run created, with their UID as
// precondition. It returns the number of such writes.
func checkInterference(t *testing.T, run *history.Run) (acted int) {
	t.Helper()
	created := map[string]bool{}
	for i := range run.Steps {
		s := &run.Steps[i]
		if s.Code == http.StatusCreated {
			created[s.Object.String()] = true
		}
		if s.Actor == "other-user" && s.IsWrite() && (!created[s.Object.String()] || !s.Guarded) {
			t.Errorf("step %d: other-user %s %s, guarded %t", s.N, s.Verb, s.Object, s.Guarded)
		}
		if s.Actor == "other-user" && s.IsWrite() {
			acted++
		}
	}
	return acted
}

// checkOrder: an object that a client gave an owner loses that owner before the owner is deleted.
func checkOrder(t *testing.T, sent []string) {
	t.Helper()
	released := slices.Index(sent, "PUT /api/v1/namespaces/elsewhere/configmaps/adopted")
	deleted := slices.Index(sent, "DELETE /api/v1/namespaces/elsewhere/configmaps/meddlers")
	if released < 0 || deleted < released {
		t.Errorf("the owner was deleted by request %d, and what it owned released by request %d", deleted, released)
	}
}

// checkPrivate: the record contains the writes of the run, and no data of other users.
func checkPrivate(t *testing.T, run *history.Run) {
	t.Helper()
	var record bytes.Buffer
	if err := history.Write(&record, run); err != nil {
		t.Fatal(err)
	}
	for _, private := range []string{"hunter2", base64.StdEncoding.EncodeToString([]byte("hunter2")), "untouched", "their.example.com/n"} {
		if strings.Contains(record.String(), private) {
			t.Errorf("the record has %q", private)
		}
	}
	if !strings.Contains(record.String(), `"--password=(hidden)","--verbose"`) || !strings.Contains(record.String(), "done-1") {
		t.Error("the record lacks what the run did")
	}
}

// TestLeftFinalizer: a rehearsal removes the finalizer that an earlier, killed rehearsal left.
func TestLeftFinalizer(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	config, client := existingCluster(t)
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left", Finalizers: []string{fault.InterferenceFinalizer, "their.example.com/f"}}}
	create(t, client.CoreV1().ConfigMaps("elsewhere").Create, left)
	going := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "going", Finalizers: []string{fault.InterferenceFinalizer}}}
	create(t, client.CoreV1().ConfigMaps("default").Create, going)
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := openExternal(t, config, copyScenario)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "going", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was being deleted is there: %v", err)
	}
	is, err := client.CoreV1().ConfigMaps("elsewhere").Get(t.Context(), "left", metav1.GetOptions{})
	if err != nil || !slices.Equal(is.Finalizers, []string{"their.example.com/f"}) {
		t.Errorf("finalizers %v, %v", is.Finalizers, err)
	}
}

// toUnstructured converts an object of a Go type for the dynamic client.
func toUnstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	return &unstructured.Unstructured{Object: content}, err
}
