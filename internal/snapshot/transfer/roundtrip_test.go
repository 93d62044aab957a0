package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const podTemplate = "{metadata: {labels: {app: %s}}, spec: {terminationGracePeriodSeconds: 0, priorityClassName: high, serviceAccountName: shop, %s containers: [{name: a, image: \"a:1\"}]}}"

// fill creates objects of many kinds in namespace shop, and waits until the controllers have nothing to do.
func fill(t *testing.T, c *cluster.Cluster) api {
	k := connect(t, c.RESTConfig())
	k.create("v1/namespaces", "", "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}")
	k.create("apiextensions.k8s.io/v1/customresourcedefinitions", "", widgets)
	k.create("scheduling.k8s.io/v1/priorityclasses", "", "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}")
	k.create("v1/serviceaccounts", "shop", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: shop}}")
	k.create("rbac.authorization.k8s.io/v1/roles", "shop", "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: shop}, rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]}")
	k.create("rbac.authorization.k8s.io/v1/rolebindings", "shop", "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: shop}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: shop}, subjects: [{kind: ServiceAccount, name: shop, namespace: shop}]}")
	k.create("rbac.authorization.k8s.io/v1/clusterroles", "", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: shop}, rules: [{apiGroups: [\"\"], resources: [nodes], verbs: [get]}]}")
	k.create("v1/secrets", "shop", "{apiVersion: v1, kind: Secret, metadata: {name: password}, data: {password: c2VjcmV0}}")
	k.create("v1/configmaps", "shop", "{apiVersion: v1, kind: ConfigMap, metadata: {name: script, finalizers: [example.com/mine]}, data: {run.sh: \"#!/bin/sh\\n\\nexec a: b\\n\", number: \"1\"}}")
	k.create("v1/configmaps", "shop", "{apiVersion: v1, kind: ConfigMap, metadata: {name: terminating, finalizers: [example.com/mine]}}")
	if err := k.on("v1/configmaps", "shop").Delete(t.Context(), "terminating", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.create("v1/persistentvolumes", "", "{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /disk}, storageClassName: none}}")
	k.create("v1/persistentvolumeclaims", "shop", "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk}, spec: {volumeName: disk, accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}}")
	k.create("v1/services", "shop", "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}")
	k.create("apps/v1/deployments", "shop", fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: "+podTemplate+"}}", "web", ""))
	k.create("apps/v1/statefulsets", "shop", fmt.Sprintf("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, replicas: 2, selector: {matchLabels: {app: db}}, template: "+podTemplate+"}}", "db", ""))
	k.create("batch/v1/jobs", "shop", fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {completions: 2, template: "+podTemplate+"}}", "once", "restartPolicy: Never,"))
	k.create("batch/v1/cronjobs", "shop", fmt.Sprintf("{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {suspend: true, schedule: \"0 0 * * *\", jobTemplate: {spec: {template: "+podTemplate+"}}}}", "nightly", "restartPolicy: Never,"))
	k.create("policy/v1/poddisruptionbudgets", "shop", "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}")
	k.create("v1/resourcequotas", "shop", "{apiVersion: v1, kind: ResourceQuota, metadata: {name: pods}, spec: {hard: {pods: \"20\"}}}")
	k.create("batch/v1/jobs", "shop", fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: active}, spec: {template: "+podTemplate+"}}", "active", "restartPolicy: Never, nodeSelector: {no: node},"))
	k.create("apps.kruise.io/v1alpha1/clonesets", "shop", fmt.Sprintf("{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: clones}, spec: {replicas: 2, selector: {matchLabels: {app: clones}}, template: "+podTemplate+"}}", "clones", ""))
	k.await("apps.kruise.io/v1alpha1/clonesets", "shop", "clones", func(o *unstructured.Unstructured) bool { return number(o, "status", "readyReplicas") == 2 })
	k.await("batch/v1/jobs", "shop", "active", func(o *unstructured.Unstructured) bool { return number(o, "status", "active") == 1 })
	k.await("apps/v1/deployments", "shop", "web", func(o *unstructured.Unstructured) bool { return number(o, "status", "availableReplicas") == 3 })
	k.await("apps/v1/statefulsets", "shop", "db", func(o *unstructured.Unstructured) bool { return number(o, "status", "availableReplicas") == 2 })
	k.await("batch/v1/jobs", "shop", "once", func(o *unstructured.Unstructured) bool {
		return number(o, "status", "succeeded") == 2 && o.Object["status"].(map[string]any)["conditions"] != nil
	})
	k.await("v1/persistentvolumeclaims", "shop", "disk", func(o *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return phase == "Bound"
	})
	// A chain of owners across kinds, of which the last is of a kind that is restored before that of its owner.
	root := k.create("example.com/v1/widgets", "shop", "{apiVersion: example.com/v1, kind: Widget, metadata: {name: z-root}, spec: {size: 1}}")
	root.Object["status"] = map[string]any{"phase": "Ready", "observedGeneration": int64(1)}
	if _, err := k.on("example.com/v1/widgets", "shop").UpdateStatus(t.Context(), root, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	leaf := k.create("example.com/v1/widgets", "shop", owned("{apiVersion: example.com/v1, kind: Widget, metadata: {name: leaf, OWNER}}", root))
	k.create("v1/configmaps", "shop", owned("{apiVersion: v1, kind: ConfigMap, metadata: {name: of-leaf, OWNER}}", leaf))
	return k
}

// owned adds an owner reference to the text of an object.
func owned(text string, owner *unstructured.Unstructured) string {
	ref := fmt.Sprintf("ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s}]", owner.GetAPIVersion(), owner.GetKind(), owner.GetName(), owner.GetUID())
	return strings.Replace(text, "OWNER", ref, 1)
}

func key(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// normalized returns the objects of a snapshot by name, without the fields that differ between two clusters. UIDs are replaced
// by the names of their objects.
func normalized(t *testing.T, data []byte) map[string]any {
	objects := read(t, data)
	names := map[string]string{}
	for _, o := range objects {
		names[string(o.GetUID())] = "UID of " + key(o)
	}
	out := map[string]any{}
	for _, o := range objects {
		refs := o.GetOwnerReferences()
		for i := range refs {
			refs[i].UID = "UID of " + refs[i].UID
			if n := names[strings.TrimPrefix(string(refs[i].UID), "UID of ")]; n != "" {
				refs[i].UID = ""
				refs[i].Name = n
			}
		}
		if len(refs) > 0 {
			o.SetOwnerReferences(refs)
		}
		snapshot.Relink(o.Object, func(uid string) (string, snapshot.State) {
			if n, ok := names[uid]; ok {
				return n, snapshot.Created
			}
			return "", snapshot.Unknown
		})
		metadata := o.Object["metadata"].(map[string]any)
		delete(metadata, "creationTimestamp")
		if metadata["deletionTimestamp"] != nil {
			metadata["deletionTimestamp"] = "set"
		}
		withoutGenerations(o.Object)
		switch o.GetKind() {
		case "CustomResourceDefinition": // the API server sets the status
			delete(o.Object, "status")
		case "ValidatingAdmissionPolicy": // the API server sets this field, a moment after the object is created
			unstructured.RemoveNestedField(o.Object, "status", "typeChecking")
		case "Namespace":
			delete(o.Object, "status")
		}
		out[key(o)] = o.Object
	}
	return out
}

// compare reports the differences between a snapshot and the objects of a cluster.
func compare(t *testing.T, data []byte, c *cluster.Cluster) {
	t.Helper()
	again, _ := save(t, c.RESTConfig(), snapshot.JSONLines, transfer.SaveOptions{})
	want, got := normalized(t, data), normalized(t, again)
	if d := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); d != "" {
		t.Error(d)
	}
	for k, w := range want {
		if d := cmp.Diff(w, got[k]); d != "" {
			t.Errorf("%s: %s", k, d)
		}
	}
}

func withoutGenerations(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "generation")
		delete(v, "observedGeneration")
		for _, child := range v {
			withoutGenerations(child)
		}
	case []any:
		for _, child := range v {
			withoutGenerations(child)
		}
	}
}

// TestRestoreBeforeControllers: controllers that start after a restore find nothing to do. They create no pod, delete none and change
// none.
func TestRestoreBeforeControllers(t *testing.T) {
	source := startCluster(t, cluster.Options{Nodes: 2})
	fill(t, source)
	data, _ := save(t, source.RESTConfig(), snapshot.JSONLines, transfer.SaveOptions{})
	var restored map[string]string
	other := startCluster(t, cluster.Options{BeforeControllers: func(ctx context.Context, config *rest.Config) error {
		result, err := transfer.Restore(ctx, config, bytes.NewReader(data), transfer.RestoreOptions{Warn: t.Errorf})
		if result.Failed > 0 {
			t.Errorf("%+v", result)
		}
		restored = podsOf(connect(t, config))
		return err
	}})
	if want := podsOf(connect(t, source.RESTConfig())); len(restored) != 10 || !cmp.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(restored))) {
		t.Errorf("restored %v of %v", restored, want)
	}
	controllersKeep(t, other, restored)
}

// TestStoreFile: controllers that start in a cluster that begins with the store of another one find nothing to do either. All objects keep their
// UIDs.
func TestStoreFile(t *testing.T) {
	source := startCluster(t, cluster.Options{Nodes: 2})
	fill(t, source)
	file := filepath.Join(t.TempDir(), "a.store")
	saveStore(t, source.RESTConfig(), file)
	want := podsOf(connect(t, source.RESTConfig()))
	other := startCluster(t, cluster.Options{StoreFile: file})
	controllersKeep(t, other, want)
	if widget := connect(t, other.RESTConfig()).get("example.com/v1/widgets", "shop", "leaf"); widget.GetUID() != connect(t, source.RESTConfig()).get("example.com/v1/widgets", "shop", "leaf").GetUID() {
		t.Errorf("%v", widget)
	}
	if err := os.Truncate(file, 5000); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	_, err := cluster.Start(t.Context(), cluster.Options{StateDir: t.TempDir(), DataDir: dir, StoreFile: file})
	if err == nil || !strings.Contains(err.Error(), "a.store: the snapshot is truncated: it ends after") {
		t.Errorf("a truncated file: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory exists: %v", err)
	}
}

func saveStore(t *testing.T, config *rest.Config, file string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(config.Host + snapshot.StorePath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// podsOf returns the UIDs of the pods in namespace shop.
func podsOf(k api) map[string]string {
	out := map[string]string{}
	for _, p := range k.list("v1/pods", "shop") {
		out[p.GetName()] = string(p.GetUID())
	}
	return out
}

// controllersKeep checks that the controllers of a cluster, which began with the objects of fill, have not changed them.
func controllersKeep(t *testing.T, c *cluster.Cluster, restored map[string]string) {
	t.Helper()
	k := connect(t, c.RESTConfig())
	// The queue of each controller contains the restored objects first. When it has managed a new object, it has processed them.
	template := strings.ReplaceAll(strings.ReplaceAll(podTemplate, "serviceAccountName: shop, ", ""), "priorityClassName: high, ", "")
	k.create("apps/v1/deployments", "default", fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: new}, spec: {replicas: 1, selector: {matchLabels: {app: new}}, template: "+template+"}}", "new", ""))
	k.create("apps/v1/statefulsets", "default", fmt.Sprintf("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: new}, spec: {serviceName: new, replicas: 1, selector: {matchLabels: {app: set}}, template: "+template+"}}", "set", ""))
	k.create("batch/v1/jobs", "default", fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: new}, spec: {template: "+template+"}}", "once", "restartPolicy: Never,"))
	k.create("apps.kruise.io/v1alpha1/clonesets", "default", fmt.Sprintf("{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: new}, spec: {replicas: 1, selector: {matchLabels: {app: clone}}, template: "+template+"}}", "clone", ""))
	k.await("apps/v1/deployments", "default", "new", func(o *unstructured.Unstructured) bool { return number(o, "status", "availableReplicas") == 1 })
	k.await("apps/v1/statefulsets", "default", "new", func(o *unstructured.Unstructured) bool { return number(o, "status", "availableReplicas") == 1 })
	k.await("batch/v1/jobs", "default", "new", func(o *unstructured.Unstructured) bool { return number(o, "status", "succeeded") == 1 })
	k.await("apps.kruise.io/v1alpha1/clonesets", "default", "new", func(o *unstructured.Unstructured) bool { return number(o, "status", "readyReplicas") == 1 })
	if d := cmp.Diff(restored, podsOf(k)); d != "" {
		t.Errorf("the controllers changed the restored pods: %s", d)
	}
	for name, want := range map[string]int64{"active": 1, "once": 0} {
		if got := number(k.get("batch/v1/jobs", "shop", name), "status", "active"); got != want {
			t.Errorf("Job %s: %d active", name, got)
		}
	}
	if n := len(k.list("apps/v1/replicasets", "shop")); n != 1 {
		t.Errorf("%d ReplicaSets", n)
	}
}

// TestRoundTrip: a snapshot of a cluster, restored into an empty one without controllers, gives the same objects with the same status
// and the same owners, also if the API server accepts only JSON.
func TestRoundTrip(t *testing.T) {
	source := startCluster(t, cluster.Options{Nodes: 2})
	fill(t, source)
	for i, format := range []snapshot.Format{snapshot.YAML, snapshot.JSONLines, snapshot.JSONLines} {
		onlyJSON := i == 2
		data, saved := save(t, source.RESTConfig(), format, transfer.SaveOptions{PageSize: 3})
		if saved.LeftOut == 0 || saved.Objects < 40 {
			t.Errorf("%+v", saved)
		}
		other := startCluster(t, cluster.Options{Controllers: noControllers})
		var done atomic.Int64
		config := (&encodings{writes: map[string][]string{}}).client(other.RESTConfig(), onlyJSON)
		result, err := transfer.Restore(t.Context(), config, bytes.NewReader(data), transfer.RestoreOptions{
			Warn: t.Errorf, Progress: func(int, int) { done.Add(1) },
		})
		if err != nil || result.Failed > 0 || result.Total != saved.Objects || int(done.Load()) != saved.Objects || result.Done() != saved.Objects {
			t.Fatalf("%v: %+v, %d done of %d", err, result, done.Load(), saved.Objects)
		}
		compare(t, data, other)
		// The objects can be replaced by themselves.
		result, err = transfer.Restore(t.Context(), other.RESTConfig(), bytes.NewReader(data), transfer.RestoreOptions{IfExists: transfer.Update, Warn: t.Errorf})
		if err != nil || result.Updated != saved.Objects {
			t.Errorf("update: %v: %+v", err, result)
		}
		compare(t, data, other)
		if got := connect(t, other.RESTConfig()).get("apps/v1/deployments", "shop", "web"); number(got, "status", "observedGeneration") != got.GetGeneration() {
			t.Errorf("observedGeneration %d of generation %d", number(got, "status", "observedGeneration"), got.GetGeneration())
		}
	}
}
