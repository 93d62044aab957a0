package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

// warnings collects warnings.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) add(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, fmt.Sprintf(format, args...))
}

// TestRestore tests restores of small files into one cluster without controllers. Each uses its own namespace.
func TestRestore(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	config, k := c.RESTConfig(), connect(t, c.RESTConfig())
	restore := func(t *testing.T, data []byte, o transfer.RestoreOptions) (transfer.RestoreResult, []string, error) {
		t.Helper()
		w := &warnings{}
		o.Warn = w.add
		result, err := transfer.Restore(t.Context(), config, bytes.NewReader(data), o)
		return result, w.text, err
	}
	namespace := func(name string) string {
		return "{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}"
	}
	configMap := func(ns, name, more string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s%s}}", name, ns, more)
	}
	uid := func(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }
	owner := func(name string, n int) string {
		return fmt.Sprintf(", ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: %s, uid: %s}]", name, uid(n))
	}
	check := func(t *testing.T, got, want transfer.RestoreResult) {
		t.Helper()
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(transfer.RestoreResult{}, "Header")); d != "" {
			t.Error(d)
		}
	}

	t.Run("truncated", func(t *testing.T) {
		data := file(t, namespace("truncated"), configMap("truncated", "a", ""))
		_, _, err := restore(t, data[:len(data)-40], transfer.RestoreOptions{})
		var bad *snapshot.FormatError
		if !errors.As(err, &bad) {
			t.Errorf("error %v", err)
		}
		for _, n := range k.list("v1/namespaces", "") {
			if n.GetName() == "truncated" {
				t.Error("a namespace was created")
			}
		}
	})

	// An object that the API server rejects does not end the restore of the others.
	t.Run("without namespace", func(t *testing.T) {
		result, _, err := restore(t, file(t, configMap("\"\"", "nowhere", ""), namespace("without"), configMap("without", "a", "")), transfer.RestoreOptions{})
		if err != nil || len(result.Failures) != 1 || !strings.Contains(result.Failures[0], "ConfigMap nowhere") {
			t.Errorf("%v: %+v", err, result)
		}
		result.Failures = nil
		check(t, result, transfer.RestoreResult{Total: 3, Created: 2, Failed: 1})
	})

	// A part of a file without header and end, as KWOK writes it. The reference to an owner that is not selected is removed.
	t.Run("selection", func(t *testing.T) {
		data := strings.Join([]string{"", namespace("selection"), configMap("selection", "owner", ", uid: "+uid(1)), configMap("selection", "part", ", labels: {app: web}"+owner("owner", 1)),
			"{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: selection, labels: {app: web}}}", ""}, "\n---\n# In YAML\n")
		_, _, err := restore(t, []byte(data), transfer.RestoreOptions{Selection: transfer.Selection{Only: []string{"cm", "sekrets"}}})
		var bad *transfer.OptionError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), `"sekrets"; nearest names: secrets`) {
			t.Error(err)
		}
		result, warned, err := restore(t, []byte(data), transfer.RestoreOptions{Selection: transfer.Selection{Only: []string{"cm", "ns"}, Selector: "app=web"}})
		if err != nil || !cmp.Equal(warned, []string{"1 objects were created without a reference to an owner that the snapshot does not contain or that is not selected, first ConfigMap selection/part (owner ConfigMap owner)"}) {
			t.Errorf("%v, warnings %q", err, warned)
		}
		check(t, result, transfer.RestoreResult{Total: 2, Created: 2, Unselected: 2, NoEnd: true})
		if got := k.list("v1/configmaps", "selection"); len(got) != 1 || got[0].GetName() != "part" || len(got[0].GetOwnerReferences()) > 0 {
			t.Error(got)
		}
		if got := k.list("v1/secrets", "selection"); len(got) > 0 {
			t.Error(got)
		}

		// An update keeps the reference to an owner that is not selected, because it is valid in the cluster. A field uid with the
		// UID of an object that is not selected is removed.
		live := k.create("v1/configmaps", "selection", configMap("selection", "owner", ""))
		k.create("v1/configmaps", "selection", configMap("selection", "dependent", strings.Replace(owner("owner", 1), uid(1), string(live.GetUID()), 1)))
		data = "# YAML\n" + strings.Join([]string{configMap("selection", "owner", ", uid: "+uid(1)), configMap("selection", "dependent", ", labels: {app: web}"+owner("owner", 1)),
			"{apiVersion: v1, kind: PersistentVolume, metadata: {name: selection, labels: {app: web}}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}, claimRef: {namespace: selection, name: c, uid: " + uid(1) + "}}}", ""}, "\n---\n# In YAML\n")
		result, warned, err = restore(t, []byte(data), transfer.RestoreOptions{IfExists: transfer.Update, Selection: transfer.Selection{Selector: "app=web"}})
		if err != nil || len(warned) > 0 {
			t.Errorf("%v, warnings %q", err, warned)
		}
		check(t, result, transfer.RestoreResult{Total: 2, Created: 1, Updated: 1, Unselected: 1, NoEnd: true})
		if got := k.get("v1/configmaps", "selection", "dependent"); got.GetLabels()["app"] != "web" || len(got.GetOwnerReferences()) != 1 || got.GetOwnerReferences()[0].UID != live.GetUID() {
			t.Error(got)
		}
		claim, _, _ := unstructured.NestedStringMap(k.get("v1/persistentvolumes", "", "selection").Object, "spec", "claimRef")
		if claim["name"] != "c" || claim["uid"] != "" {
			t.Error(claim)
		}
	})

	// The objects of a recording are restored; an invalid change restores nothing.
	t.Run("recording", func(t *testing.T) {
		change := func(method string) string {
			return "---\napiVersion: action.kwok.x-k8s.io/v1alpha1\nkind: ResourcePatch\ndurationNanosecond: 1\nmethod: " + method + "\nresource: {version: v1, resource: configmaps}\ntarget: {name: a, namespace: recording}\n"
		}
		objects := "apiVersion: v1\nkind: Namespace\nmetadata: {name: recording, annotations: {at: $(time-offset-nanosecond 0)}}\n---\n" +
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: recording}\n"
		_, _, err := restore(t, []byte(objects+change("delete")+change("replace")+change("delete")), transfer.RestoreOptions{})
		if err == nil || err.Error() != `document 4: method "replace": must be create, patch or delete` {
			t.Error(err)
		}
		result, warned, err := restore(t, []byte(objects+change("delete")+change("delete")), transfer.RestoreOptions{})
		if err != nil || len(warned) > 0 {
			t.Errorf("%v, warnings %v", err, warned)
		}
		check(t, result, transfer.RestoreResult{Total: 2, Created: 2, Changes: 2, NoEnd: true})
		if _, err := time.Parse(time.RFC3339, k.get("v1/namespaces", "", "recording").GetAnnotations()["at"]); err != nil {
			t.Error(err)
		}
		k.get("v1/configmaps", "recording", "a")
	})

	// Every object precedes what it requires: its namespace, its service account, its owners.
	t.Run("reverse order", func(t *testing.T) {
		data := file(t,
			"{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: reverse"+owner("c", 3)+"}, spec: {serviceAccountName: s, containers: [{name: a, image: a}]}}",
			configMap("reverse", "c", ", uid: "+uid(3)+owner("b", 2)), configMap("reverse", "b", ", uid: "+uid(2)+owner("a", 1)), configMap("reverse", "a", ", uid: "+uid(1)),
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: s, namespace: reverse}}", namespace("reverse"))
		result, warned, err := restore(t, data, transfer.RestoreOptions{})
		if err != nil || len(warned) > 0 {
			t.Errorf("%v, warnings %v", err, warned)
		}
		check(t, result, transfer.RestoreResult{Total: 6, Created: 6})
		for name, of := range map[string]string{"b": "a", "c": "b"} {
			refs := k.get("v1/configmaps", "reverse", name).GetOwnerReferences()
			if len(refs) != 1 || refs[0].UID != k.get("v1/configmaps", "reverse", of).GetUID() {
				t.Errorf("owners of %s: %v", name, refs)
			}
		}
	})

	t.Run("owners", func(t *testing.T) {
		data := file(t, namespace("owners"), configMap("owners", "orphan", owner("unknown", 99)),
			configMap("owners", "invalid_name", ", uid: "+uid(11)), configMap("owners", "dependent", ", uid: "+uid(12)+owner("invalid_name", 11)), configMap("owners", "second", owner("dependent", 12)))
		result, warned, err := restore(t, data, transfer.RestoreOptions{Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"1 objects were created without a reference to an owner that the snapshot does not contain, first ConfigMap owners/orphan (owner ConfigMap unknown)"}; !cmp.Equal(want, warned) {
			t.Error(cmp.Diff(want, warned))
		}
		if result.Failed != 3 || result.Created != 2 || !strings.Contains(result.Failures[0], "ConfigMap owners/invalid_name: ") ||
			result.Failures[1] != "ConfigMap owners/dependent: its owner ConfigMap invalid_name was not restored" || result.Failures[2] != "ConfigMap owners/second: its owner ConfigMap dependent was not restored" {
			t.Errorf("%+v", result)
		}
		if refs := k.get("v1/configmaps", "owners", "orphan").GetOwnerReferences(); refs != nil {
			t.Errorf("owners %v", refs)
		}
	})

	t.Run("unknown kind", func(t *testing.T) {
		result, _, err := restore(t, file(t, "{apiVersion: example.com/v9, kind: Gadget, metadata: {name: a}}"), transfer.RestoreOptions{})
		if err != nil || result.Failed != 1 || result.Failures[0] != "Gadget a: the API server does not serve kind Gadget of example.com/v9" {
			t.Errorf("%v %+v", err, result)
		}
	})

	t.Run("existing", func(t *testing.T) {
		saved := file(t, namespace("existing"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: existing}, data: {k: saved}}", configMap("existing", "b", ""))
		k.create("v1/namespaces", "", namespace("existing"))
		k.create("v1/configmaps", "existing", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: live}}")
		value := func() any { return k.get("v1/configmaps", "existing", "a").Object["data"].(map[string]any)["k"] }
		result, _, err := restore(t, saved, transfer.RestoreOptions{IfExists: transfer.Fail})
		if err == nil || err.Error() != "exists in the cluster: Namespace existing, ConfigMap existing/a; nothing was restored" || result.Created != 0 {
			t.Errorf("%v %+v", err, result)
		}
		if n := len(k.list("v1/configmaps", "existing")); n != 1 {
			t.Errorf("%d objects", n)
		}
		result, _, err = restore(t, saved, transfer.RestoreOptions{})
		if err != nil || value() != "live" {
			t.Errorf("%v %v", err, value())
		}
		check(t, result, transfer.RestoreResult{Total: 3, Created: 1, Existed: 2})
		result, _, err = restore(t, saved, transfer.RestoreOptions{IfExists: transfer.Update})
		if err != nil || value() != "saved" {
			t.Errorf("%v %v", err, value())
		}
		check(t, result, transfer.RestoreResult{Total: 3, Updated: 3})
		if _, _, err = restore(t, file(t, namespace("default"), namespace("kube-system")), transfer.RestoreOptions{IfExists: transfer.Fail}); err != nil {
			t.Errorf("namespaces of every cluster: %v", err)
		}
	})

	t.Run("service address", func(t *testing.T) {
		k.create("v1/namespaces", "", namespace("service"))
		first := k.create("v1/services", "service", "{apiVersion: v1, kind: Service, metadata: {name: first}, spec: {ports: [{port: 80}]}}")
		ip, _, _ := unstructured.NestedString(first.Object, "spec", "clusterIP")
		data := file(t, "{apiVersion: v1, kind: Service, metadata: {name: second, namespace: service}, spec: {clusterIP: "+ip+", clusterIPs: ["+ip+"], ports: [{port: 80}]}}")
		result, warned, err := restore(t, data, transfer.RestoreOptions{})
		if err != nil || len(warned) != 1 || !strings.HasPrefix(warned[0], "Service service/second has other addresses or ports than in the snapshot: ") {
			t.Errorf("%v, warnings %v", err, warned)
		}
		check(t, result, transfer.RestoreResult{Total: 1, Created: 1})
	})

	// The status of a Job names pods, which are created after it.
	t.Run("references to later objects", func(t *testing.T) {
		data := file(t, namespace("later"), "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: later}}",
			"{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: later, uid: "+uid(21)+"}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}, status: {startTime: \"2026-01-02T03:04:05Z\", uncountedTerminatedPods: {succeeded: ["+uid(22)+"]}}}",
			"{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: later, uid: "+uid(22)+", labels: {batch.kubernetes.io/controller-uid: "+uid(21)+"}}, spec: {restartPolicy: Never, containers: [{name: a, image: a}]}, status: {phase: Succeeded}}")
		if result, warned, err := restore(t, data, transfer.RestoreOptions{}); err != nil || len(warned) > 0 || result.Failed > 0 {
			t.Fatalf("%v %v %+v", err, warned, result)
		}
		job, pod := k.get("batch/v1/jobs", "later", "j"), k.get("v1/pods", "later", "p")
		uncounted, _, _ := unstructured.NestedStringSlice(job.Object, "status", "uncountedTerminatedPods", "succeeded")
		if !cmp.Equal(uncounted, []string{string(pod.GetUID())}) || pod.GetLabels()["batch.kubernetes.io/controller-uid"] != string(job.GetUID()) {
			t.Errorf("uncounted %v, pod %s with labels %v, job %s", uncounted, pod.GetUID(), pod.GetLabels(), job.GetUID())
		}
	})

	t.Run("node annotations", func(t *testing.T) {
		data := file(t, "{apiVersion: v1, kind: Node, metadata: {name: simulated}, spec: {taints: [{key: mine, effect: NoSchedule}]}, status: {capacity: {pods: \"7\"}}}")
		if _, _, err := restore(t, data, transfer.RestoreOptions{NodeAnnotations: map[string]string{"simulated": "yes"}}); err != nil {
			t.Fatal(err)
		}
		node := k.get("v1/nodes", "", "simulated")
		taints, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
		pods, _, _ := unstructured.NestedString(node.Object, "status", "capacity", "pods")
		if node.GetAnnotations()["simulated"] != "yes" || len(taints) != 1 || pods != "7" {
			t.Errorf("%v", node.Object)
		}
	})

	// The first restore is interrupted after each number of writes; the second one completes it.
	t.Run("resumed", func(t *testing.T) {
		for n := range 7 {
			ns := fmt.Sprint("resumed-", n)
			data := file(t, namespace(ns), "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: "+ns+"}}",
				"{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: "+ns+", uid: "+uid(31)+"}, spec: {containers: [{name: a, image: a}]}, status: {phase: Running, podIP: 10.0.0.1}}",
				configMap(ns, "a", ", finalizers: [example.com/a], deletionTimestamp: \"2026-01-02T03:04:05Z\", ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: "+uid(31)+"}]"))
			// The connection breaks, so that not even the object that was begun is finished.
			broken, _ := breaking(config, n)
			if result, err := transfer.Restore(t.Context(), broken, bytes.NewReader(data), transfer.RestoreOptions{Parallel: 1, Warn: t.Errorf}); n < 6 && (err == nil || result.Failed > 0) {
				t.Fatalf("%d writes: %v %+v", n, err, result)
			}
			if _, warned, err := restore(t, data, transfer.RestoreOptions{}); err != nil || len(warned) > 0 {
				t.Fatalf("%d writes: %v %v", n, err, warned)
			}
			pod, a := k.get("v1/pods", ns, "p"), k.get("v1/configmaps", ns, "a")
			phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
			if refs := a.GetOwnerReferences(); phase != "Running" || a.GetDeletionTimestamp() == nil || len(refs) != 1 || refs[0].UID != pod.GetUID() {
				t.Errorf("after %d writes: phase %q, owners %v, deletion at %v", n, phase, refs, a.GetDeletionTimestamp())
			}
		}
	})

	// Fields that the API server does not know are named once per object, at most ten.
	t.Run("unknown fields", func(t *testing.T) {
		const ns = "unknown-fields"
		first := configMap(ns, "a", "")
		objects := []string{namespace(ns), first[:len(first)-1] + ", datta: {a: b}}",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: " + ns + "}, spec: {replcas: 7, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a, comand: [x]}]}}}}"}
		result, warned, err := restore(t, file(t, objects...), transfer.RestoreOptions{Parallel: 1})
		want := []string{
			`ConfigMap unknown-fields/a: unknown field "datta" is not restored`,
			`Deployment unknown-fields/d: unknown field "spec.replcas" is not restored`,
			`Deployment unknown-fields/d: unknown field "spec.template.spec.containers[0].comand" is not restored`,
		}
		slices.Sort(warned)
		if diff := cmp.Diff(want, warned); diff != "" || err != nil || result.Failed > 0 {
			t.Errorf("%v, %+v, warnings (-want +got)\n%s", err, result, diff)
		}
		for i := range 30 {
			c := configMap(ns, fmt.Sprint("many-", i), "")
			objects = append(objects, c[:len(c)-1]+", datta: {a: b}}")
		}
		_, warned, err = restore(t, file(t, objects[3:]...), transfer.RestoreOptions{})
		if err != nil || len(warned) != 11 || warned[10] != "more fields are not restored, because the API server does not know them" {
			t.Errorf("%v, warnings %q", err, warned)
		}
	})

	// When the connection has failed, the other objects are not tried: each might wait long for it.
	t.Run("broken", func(t *testing.T) {
		objects := []string{namespace("broken")}
		for i := range 50 {
			objects = append(objects, configMap("broken", fmt.Sprint("c", i), ""))
		}
		const parallel = 4
		broken, later := breaking(config, 10)
		result, err := transfer.Restore(t.Context(), broken, bytes.NewReader(file(t, objects...)), transfer.RestoreOptions{Parallel: parallel, Warn: t.Errorf})
		if n := later.Load(); err == nil || !strings.Contains(err.Error(), "the connection is broken") || result.Created != 10 || n > parallel+1 {
			t.Errorf("%v: %+v, %d requests after the connection broke", err, result, n)
		}
	})

	// An interrupt lets the objects finish that were begun.
	t.Run("interrupted", func(t *testing.T) {
		objects := []string{namespace("interrupted")}
		for i := range 50 {
			objects = append(objects, configMap("interrupted", fmt.Sprint("c", i), ""))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		result, err := transfer.Restore(ctx, config, bytes.NewReader(file(t, objects...)), transfer.RestoreOptions{Parallel: 4, Warn: t.Errorf, Progress: func(done, _ int) {
			if done == 10 {
				cancel()
			}
		}})
		if n := len(k.list("v1/configmaps", "interrupted")); !errors.Is(err, context.Canceled) || n+1 != result.Created || n >= 50 {
			t.Errorf("%v: %d objects exist, %+v", err, n, result)
		}
	})
}

// breaking returns a configuration whose connection breaks after a number of writes, and the number of writes after that.
func breaking(config *rest.Config, writes int) (*rest.Config, *atomic.Int64) {
	config = rest.CopyConfig(config)
	var n, later atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && n.Add(1) > int64(writes) {
				later.Add(1)
				return nil, errors.New("the connection is broken")
			}
			return next.RoundTrip(r)
		})
	})
	return config, &later
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSaveSelection: filters by kind, namespace and label, and the data of Secrets.
func TestSaveSelection(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	config, k := c.RESTConfig(), connect(t, c.RESTConfig())
	for _, ns := range []string{"a", "b"} {
		k.create("v1/namespaces", "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}")
		k.create("v1/configmaps", ns, "{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}}")
		k.create("v1/configmaps", ns, "{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, labels: {app: web}}}")
		k.create("v1/secrets", ns, "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: c2VjcmV0}}")
	}
	k.create("rbac.authorization.k8s.io/v1/clusterroles", "", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: mine}}")
	for name, c := range map[string]struct {
		o    transfer.SaveOptions
		want []string
	}{
		"kinds":                  {transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"cm", "clusterrole.rbac.authorization.k8s.io"}}}, []string{"ClusterRole /mine", "ConfigMap a/labelled", "ConfigMap a/plain", "ConfigMap b/labelled", "ConfigMap b/plain"}},
		"namespace":              {transfer.SaveOptions{Selection: transfer.Selection{Namespaces: []string{"a"}}}, []string{"Namespace /a", "ConfigMap a/labelled", "ConfigMap a/plain", "Secret a/s"}},
		"selector":               {transfer.SaveOptions{Selection: transfer.Selection{Selector: "app=web", Namespaces: []string{"a", "b"}}}, []string{"Namespace /a", "Namespace /b", "ConfigMap a/labelled", "ConfigMap b/labelled"}},
		"kind in a namespace":    {transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"Secret"}, Namespaces: []string{"b"}}}, []string{"Secret b/s"}},
		"cluster-scoped by name": {transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"clusterroles", "ns"}, Namespaces: []string{"b"}}}, []string{"Namespace /b", "ClusterRole /mine"}},
	} {
		data, _ := save(t, config, snapshot.YAML, c.o)
		var got []string
		for _, o := range read(t, data) {
			got = append(got, key(o))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	for only, want := range map[string]string{
		"configmap.apps": `the API server has no kind "configmap.apps" that can be listed and created; nearest names: `,
		"leases":         `kind "leases" is never part of a snapshot: their holders do not exist in another cluster`,
	} {
		_, err := transfer.Save(t.Context(), config, &bytes.Buffer{}, snapshot.YAML, false, transfer.SaveOptions{Selection: transfer.Selection{Only: []string{only}}, Warn: t.Errorf})
		var bad *transfer.OptionError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", only, err)
		}
	}
	// Without its data, a Secret keeps its keys.
	data, _ := save(t, config, snapshot.YAML, transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"secrets"}}, OmitSecretData: true})
	if text := string(data); strings.Contains(text, "c2VjcmV0") || strings.Count(text, "  password: b21pdHRlZA==\n") != 2 && strings.Count(text, `  password: "b21pdHRlZA=="`) != 2 || !strings.Contains(text, "secretData: omitted") {
		t.Error(text)
	}
	// The revision of a list expires between two pages; the API server offers to continue at a newer one.
	expiring := rest.CopyConfig(config)
	expiring.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			q := r.URL.Query()
			token, again := strings.CutSuffix(q.Get("continue"), "-again")
			if token != "" && !again {
				status := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "metadata": {"continue": "` + token + `-again"}}`
				return &http.Response{StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)), Request: r}, nil
			}
			r = r.Clone(r.Context())
			q.Set("continue", token)
			r.URL.RawQuery = q.Encode()
			return next.RoundTrip(r)
		})
	})
	old := &warnings{}
	data, _ = save(t, expiring, snapshot.YAML, transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"cm"}}, PageSize: 2, Warn: old.add})
	if got := read(t, data); len(got) != 4 || len(old.text) != 1 || old.text[0] != "listing configmaps took so long that its first objects are older than its last ones" {
		t.Errorf("%v\n%v", got, old.text)
	}
	// The API server prepares the next page while one is written: it has been requested before the first page is complete.
	asked, once := make(chan struct{}), sync.Once{}
	ahead := rest.CopyConfig(config)
	ahead.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("continue") != "" {
				once.Do(func() { close(asked) })
			}
			return next.RoundTrip(r)
		})
	})
	save(t, ahead, snapshot.YAML, transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"cm"}}, PageSize: 2, Progress: func(_ string, done, _ int) {
		select {
		case <-asked:
		case <-time.After(30 * time.Second):
			t.Errorf("no second page was requested after %d objects", done)
		}
	}})
	// A user who may not list a kind gets the others, with a warning for it.
	limited := rest.CopyConfig(config)
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/secrets") {
				const status = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "secrets is forbidden"}`
				return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)), Request: r}, nil
			}
			return next.RoundTrip(r)
		})
	})
	w := &warnings{}
	data, _ = save(t, limited, snapshot.YAML, transfer.SaveOptions{Selection: transfer.Selection{Namespaces: []string{"a"}}, Warn: w.add})
	if got := read(t, data); len(got) != 3 || len(w.text) != 1 || w.text[0] != "secrets is left out: secrets is forbidden" {
		t.Errorf("%v\n%v", got, w.text)
	}
	if _, err := transfer.Save(t.Context(), limited, &bytes.Buffer{}, snapshot.YAML, false, transfer.SaveOptions{Selection: transfer.Selection{Only: []string{"secrets"}}, Warn: t.Errorf}); err == nil || !strings.HasPrefix(err.Error(), "list secrets: secrets is forbidden") {
		t.Error(err)
	}
}
