package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

// TestReplay: the changes of a cluster with controllers, replayed into a cluster without controllers, give the same objects with the same
// status and the same owners. The changes create, bind, update and delete pods, define a kind, create a namespace, and remove a finalizer.
func TestReplay(t *testing.T) {
	source := startCluster(t, cluster.Options{Nodes: 1})
	k := connect(t, source.RESTConfig())
	k.create("v1/configmaps", "default", "{apiVersion: v1, kind: ConfigMap, metadata: {name: finalized, finalizers: [example.com/mine]}}")
	deployment := fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: "+podTemplate+"}}", "web", "")
	deployment = strings.NewReplacer("priorityClassName: high, serviceAccountName: shop,", "").Replace(deployment)
	k.create("apps/v1/deployments", "default", strings.ReplaceAll(deployment, "web", "first"))
	available := func(n int64) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			return number(o, "status", "availableReplicas") == n && number(o, "status", "replicas") == n && number(o, "status", "observedGeneration") == o.GetGeneration()
		}
	}
	k.await("apps/v1/deployments", "default", "first", available(2))
	patch := func(resource, name, body string) {
		t.Helper()
		if _, err := k.on(resource, "default").Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), recordingLimit)
	defer stop()
	var b bytes.Buffer
	recorded, err := transfer.Record(ctx, source.RESTConfig(), &b, snapshot.JSONLines, false, transfer.RecordOptions{
		SaveOptions: transfer.SaveOptions{Warn: func(format string, args ...any) {
			if !strings.Contains(format, "which was defined during the recording") {
				t.Errorf(format, args...)
			}
		}},
		Started: func(int) {
			k.create("apiextensions.k8s.io/v1/customresourcedefinitions", "", widgets)
			k.create("v1/namespaces", "", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
			k.create("v1/configmaps", "shop", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
			k.create("apps/v1/deployments", "default", deployment)
			k.await("apps/v1/deployments", "default", "web", available(2))
			patch("apps/v1/deployments", "web", `{"spec": {"replicas": 3}}`)
			k.await("apps/v1/deployments", "default", "web", available(3))
			patch("apps/v1/deployments", "first", `{"spec": {"replicas": 1}}`)
			k.await("apps/v1/deployments", "default", "first", available(1))
			if err := k.on("v1/configmaps", "default").Delete(t.Context(), "finalized", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			patch("v1/configmaps", "finalized", `{"metadata": {"finalizers": null}}`)
			k.create("v1/configmaps", "default", "{apiVersion: v1, kind: ConfigMap, metadata: {name: last}}")
		},
		Recorded: func(_ int, last snapshot.Change) {
			if last.Name == "last" {
				stop()
			}
		},
	})
	if err != nil || recorded.Changes < 20 || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("%v, %v: %+v", err, ctx.Err(), recorded)
	}
	after, _ := save(t, source.RESTConfig(), snapshot.JSONLines, transfer.SaveOptions{})

	target := startCluster(t, cluster.Options{Controllers: noControllers})
	var failures []string
	result, err := transfer.Replay(t.Context(), target.RESTConfig(), bytes.NewReader(b.Bytes()), transfer.ReplayOptions{
		RestoreOptions: transfer.RestoreOptions{Warn: t.Errorf}, Speed: snapshot.MaxSpeed,
		Failed: func(c snapshot.Change, err error) {
			failures = append(failures, fmt.Sprintf("document %d: %s %s: %v", c.Document, c.Method, c, err))
		},
	})
	if err != nil || result.Done() != recorded.Changes || result.Failed > 0 || result.Absent > 0 {
		t.Fatalf("%v: %+v\n%s", err, result, strings.Join(failures, "\n"))
	}
	compare(t, after, target)
}

// recording returns a recording of one ConfigMap and these changes.
func recording(t *testing.T, changes ...snapshot.Change) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := snapshot.NewWriter(&b, snapshot.YAML, false, snapshot.Header{Recording: true})
	if err == nil {
		err = w.Write(parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: default}}"))
	}
	for _, c := range changes {
		if c.Resource.Resource == "" {
			c.Resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		}
		if c.Namespace = "default"; err == nil {
			err = w.WriteChange(c)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestReplayFailures: a change that fails is reported with its object and document, and the others are applied. Dependents of an object that
// was not created are not created.
func TestReplayFailures(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	k := connect(t, c.RESTConfig())
	k.create("v1/configmaps", "default", "{apiVersion: v1, kind: ConfigMap, metadata: {name: exists}}")
	const owner, other = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
	configMap := func(name, more string) map[string]any {
		return parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+", namespace: default"+more+"}}").Object
	}
	of := func(name, uid string) string {
		return ", ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: " + name + ", uid: " + uid + "}]"
	}
	data := recording(t,
		snapshot.Change{Name: "unknown", Method: snapshot.Patch, Template: map[string]any{"data": map[string]any{"a": "b"}}},
		snapshot.Change{Name: "exists", Method: snapshot.Create, Template: configMap("exists", "")},
		snapshot.Change{Name: "in_valid", Method: snapshot.Create, Template: configMap("in_valid", ", uid: "+owner)},
		snapshot.Change{Name: "dependent", Method: snapshot.Create, Template: configMap("dependent", of("in_valid", owner))},
		snapshot.Change{Name: "x", Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Method: snapshot.Delete},
		snapshot.Change{Name: "gone", Method: snapshot.Delete},
		snapshot.Change{Name: "kube-root-ca.crt", Method: snapshot.Create, Template: configMap("kube-root-ca.crt", "")},
		snapshot.Change{Name: "kube-root-ca.crt", Method: snapshot.Patch, Template: map[string]any{"data": map[string]any{"a": "b"}}},
		// With a label, so that its managedFields name the writer: without any field, they have no entry.
		snapshot.Change{Name: "owner", Method: snapshot.Create, Template: configMap("owner", ", labels: {managed: field}, uid: "+other)},
		snapshot.Change{Name: "first", Method: snapshot.Patch, Template: map[string]any{"metadata": map[string]any{
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": other}}, "$setElementOrder/ownerReferences": []any{map[string]any{"uid": other}}}}},
	)
	var got []string
	result, err := transfer.Replay(t.Context(), c.RESTConfig(), bytes.NewReader(data), transfer.ReplayOptions{
		RestoreOptions: transfer.RestoreOptions{Warn: t.Errorf},
		Failed: func(c snapshot.Change, err error) {
			got = append(got, fmt.Sprintf("%d %s %s: %v", c.Document, c.Method, c, err))
		},
	})
	slices.Sort(got)
	if d := cmp.Diff([]string{
		`4 patch configmaps default/unknown: configmaps "unknown" not found`,
		`5 create configmaps default/exists: an object of this name exists that this command has not created: ConfigMap default/exists`,
		`7 create configmaps default/dependent: its owner ConfigMap in_valid was not restored`,
		`8 delete widgets.example.com default/x: the API server does not serve widgets.example.com in version v1`,
	}, slices.DeleteFunc(slices.Clone(got), func(s string) bool { return strings.HasPrefix(s, "6 ") })); d != "" || len(got) != 5 {
		t.Errorf("%s\n%v", d, got)
	}
	want := transfer.ReplayResult{Restored: result.Restored, Applied: 2, Absent: 1, LeftOut: 2, Failed: 5, Late: result.Late}
	if d := cmp.Diff(want, result); d != "" || err != nil || result.Restored.Created != 1 {
		t.Errorf("%v: %s", err, d)
	}
	if refs := k.get("v1/configmaps", "default", "first").GetOwnerReferences(); len(refs) != 1 || refs[0].UID != k.get("v1/configmaps", "default", "owner").GetUID() {
		t.Error(refs)
	}
	// An object that an earlier replay created is not that of the recording either.
	var again error
	_, err = transfer.Replay(t.Context(), c.RESTConfig(), bytes.NewReader(data), transfer.ReplayOptions{
		RestoreOptions: transfer.RestoreOptions{Warn: t.Errorf},
		Failed: func(c snapshot.Change, err error) {
			if c.Name == "owner" {
				again = err
			}
		},
	})
	if err != nil || again == nil || again.Error() != "an object of this name exists that this command has not created: ConfigMap default/owner" {
		t.Errorf("%v; %v", err, again)
	}
}

// TestReplayBroken: when the connection has failed, changes that are due are not tried any more: each might wait long for it.
func TestReplayBroken(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	var changes []snapshot.Change
	for i := range 50 {
		name := fmt.Sprint("c-", i)
		changes = append(changes, snapshot.Change{Name: name, Method: snapshot.Create, Template: parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+", namespace: default}}").Object})
	}
	config, later := breaking(c.RESTConfig(), 3)
	result, err := transfer.Replay(t.Context(), config, bytes.NewReader(recording(t, changes...)), transfer.ReplayOptions{RestoreOptions: transfer.RestoreOptions{Parallel: 1, Warn: t.Errorf}})
	if err == nil || !strings.Contains(err.Error(), "the connection is broken") || result.Applied != 2 || result.Done() != 3 || later.Load() != 1 {
		t.Errorf("%v: %+v, %d requests after the connection broke", err, result, later.Load())
	}
}

// TestReplayStep: a paused replay applies one change for each command, at any time of the recording, and ends with the commands.
func TestReplayStep(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	k := connect(t, c.RESTConfig())
	var steps []snapshot.Change
	for i := range 3 {
		steps = append(steps, snapshot.Change{Name: "first", Method: snapshot.Patch, After: time.Duration(i+1) * time.Hour, Template: map[string]any{"data": map[string]any{"step": fmt.Sprint(i)}}})
	}
	for n, want := range map[int]string{0: "", 2: "1", 3: "2"} {
		commands := make(chan snapshot.Control, 8)
		for range n {
			commands <- snapshot.Next
		}
		close(commands)
		result, err := transfer.Replay(t.Context(), c.RESTConfig(), bytes.NewReader(recording(t, steps...)), transfer.ReplayOptions{
			RestoreOptions: transfer.RestoreOptions{Warn: t.Errorf, IfExists: transfer.Update}, Step: true, Controls: commands,
		})
		got, _, _ := unstructured.NestedString(k.get("v1/configmaps", "default", "first").Object, "data", "step")
		if err != nil || result.Applied != n || result.Stopped != (n < 3) || got != want {
			t.Errorf("%d commands: %v: %+v, at step %q", n, err, result, got)
		}
	}
	// An invalid change at the end of the file: nothing is written.
	data := bytes.Replace(recording(t, steps...), []byte("method: patch"), []byte("method: replace"), 1)
	data = bytes.Replace(data, []byte("name: first"), []byte("name: never"), 1)
	_, err := transfer.Replay(t.Context(), c.RESTConfig(), bytes.NewReader(data), transfer.ReplayOptions{RestoreOptions: transfer.RestoreOptions{Warn: t.Errorf}})
	if err == nil || !strings.Contains(err.Error(), `document 4: method "replace"`) {
		t.Error(err)
	}
	if _, err := k.on("v1/configmaps", "default").Get(t.Context(), "never", metav1.GetOptions{}); err == nil {
		t.Error("an object was created")
	}
}
