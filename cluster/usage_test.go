package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestHorizontalPodAutoscaler: the upstream HorizontalPodAutoscaler scales a Deployment from 1 to 10 replicas and back, on the CPU
// that a ClusterResourceUsage defines.
func TestHorizontalPodAutoscaler(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: 2, HPASyncPeriod: time.Second})
	k, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, k, string(crds.Usage()[1]))
	create(t, k, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web, resources: {requests: {cpu: 100m}}}]}
`)
	usage := schema.GroupVersionKind{Group: "kwok.x-k8s.io", Version: "v1alpha1", Kind: "ClusterResourceUsage"}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"usages": []any{map[string]any{"usage": map[string]any{"cpu": map[string]any{"expression": `container.resources.requests["cpu"] * 2`}}}},
	}}}
	u.SetGroupVersionKind(usage)
	u.SetName("all")
	await(t, "the ClusterResourceUsage is created", func() error { return k.Create(t.Context(), u) })
	create(t, k, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 10
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
  behavior:
    scaleUp: {policies: [{type: Pods, value: 3, periodSeconds: 1}]}
    scaleDown: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 5, periodSeconds: 1}]}
`)
	replicas := func(want int32) {
		t.Helper()
		await(t, fmt.Sprintf("%d replicas", want), func() error {
			d := &appsv1.Deployment{}
			if err := k.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "web"}, d); err != nil {
				return err
			}
			if d.Status.Replicas != want || d.Status.ReadyReplicas != want {
				return fmt.Errorf("%d replicas, %d ready", d.Status.Replicas, d.Status.ReadyReplicas)
			}
			return nil
		})
	}
	replicas(10)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"usages":[{"usage":{"cpu":{"value":"1m"}}}]}}`))
	if err := k.Patch(t.Context(), u, patch); err != nil {
		t.Fatal(err)
	}
	replicas(1)
}

// TestMetricsAPI: a cluster serves metrics.k8s.io when it has started, and users with the role view may read it.
func TestMetricsAPI(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: 1})
	config := c.RESTConfig()
	config.ContentType, config.AcceptContentTypes = "", ""
	k := kubernetes.NewForConfigOrDie(config)
	groups, err := k.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	served := false
	for _, g := range groups.Groups {
		served = served || g.Name == "metrics.k8s.io"
	}
	if !served {
		t.Error("discovery does not list metrics.k8s.io")
	}
	body, err := k.RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes/node-0").DoRaw(t.Context())
	if err != nil || !json.Valid(body) {
		t.Errorf("%s %v", body, err)
	}
	await(t, "the role view reads metrics", func() error {
		role, err := k.RbacV1().ClusterRoles().Get(t.Context(), "view", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				if group == "metrics.k8s.io" {
					return nil
				}
			}
		}
		return fmt.Errorf("rules %v", role.Rules)
	})
}

// TestNodeUsageThroughProxy: the API server's proxy of nodes reaches the usage of the node that the path names.
func TestNodeUsageThroughProxy(t *testing.T) {
	k := startKubelets(t)
	k.pod(t, "web", map[string]corev1.ContainerState{"main": running()})
	get := func(path string) (string, error) {
		body, err := k.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/node-0/proxy" + path).DoRaw(t.Context())
		return string(body), err
	}
	await(t, "the pod has metrics", func() error {
		body, err := get("/metrics/resource")
		if want := `pod_memory_working_set_bytes{namespace="default",pod="web"} 1.048576e+06 `; err == nil && !strings.Contains(body, want) {
			err = fmt.Errorf("got %s, want %s", body, want)
		}
		return err
	})
	body, err := get("/stats/summary")
	if err != nil || !strings.Contains(body, `"nodeName":"node-0"`) || !strings.Contains(body, `"podRef":{"name":"web"`) {
		t.Errorf("%s %v", body, err)
	}
}

// scrapeDiscovered does what a Prometheus server with an http_sd_config does: it reads the list at a node and requests each entry.
func scrapeDiscovered(t *testing.T, k kubeletCluster) {
	t.Helper()
	data, err := k.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/node-0/proxy/discovery/prometheus").DoRaw(t.Context())
	var found []struct {
		Targets []string
		Labels  map[string]string
	}
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if url := f.Labels["__scheme__"] + "://" + f.Targets[0]; f.Labels["metrics_name"] != "pods" || url != k.URL() {
			t.Errorf("%v at %s, want that of the API server, %s", f.Labels, url, k.URL())
		}
		body, err := k.CoreV1().RESTClient().Get().AbsPath(f.Labels["__metrics_path__"]).DoRaw(t.Context())
		if err != nil || !strings.Contains(string(body), "rehearse_metric_errors 0") {
			t.Errorf("%v: %v %s", f.Labels, err, body)
		}
	}
	if len(found) != 1 {
		t.Errorf("%d entries for one Metric and one node: %s", len(found), data)
	}
}

// TestMetricThroughProxy: the API server's proxy of nodes reaches the paths of Metric objects, from a file and from the API, and a change
// applies to the next request.
func TestMetricThroughProxy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "metric.yaml")
	const metric = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: pods}
spec:
  path: /metrics/nodes/{nodeName}/pods
  metrics:
  - {name: pod_memory, kind: gauge, dimension: pod, labels: [{name: pod, value: pod.metadata.name}], value: 'pod.Usage("memory")'}
`
	if err := os.WriteFile(file, []byte(metric), 0o600); err != nil {
		t.Fatal(err)
	}
	k := startKubelets(t, file)
	k.pod(t, "web", map[string]corev1.ContainerState{"main": running()})
	get := func(path, want string) error {
		body, err := k.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/node-0/proxy" + path).DoRaw(t.Context())
		if err == nil && !strings.Contains(string(body), want) {
			err = fmt.Errorf("got %s, want %s", body, want)
		}
		return err
	}
	await(t, "the Metric of the file", func() error {
		return get("/metrics/nodes/node-0/pods", "\npod_memory{pod=\"web\"} 1.048576e+06\n")
	})
	if err := get("/metrics/nodes/node-1/pods", ""); !apierrors.IsNotFound(err) {
		t.Errorf("the path of another node: %v", err)
	}
	scrapeDiscovered(t, k)
	c, err := client.New(k.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, c, string(crds.Usage()[2]))
	stored := create(t, c, strings.NewReplacer("name: pods", "name: stored", "/metrics/nodes/{nodeName}/pods", "/metrics").Replace(metric))
	if err := get("/metrics", "\npod_memory{pod=\"web\"} 1.048576e+06\n"); err != nil {
		t.Error(err)
	}
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/metrics/0/value","value":"42"}]`))
	if err := c.Patch(t.Context(), stored, patch); err != nil {
		t.Fatal(err)
	}
	if err := get("/metrics", "\npod_memory{pod=\"web\"} 42\n"); err != nil {
		t.Error(err)
	}
	invalid := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/metrics/0/kind","value":"summary"}]`))
	if err := c.Patch(t.Context(), stored, invalid); !apierrors.IsInvalid(err) {
		t.Errorf("an unknown kind: %v", err)
	}
	if err := c.Delete(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if err := get("/metrics", ""); !apierrors.IsNotFound(err) {
		t.Errorf("after the Metric is deleted: %v", err)
	}
}
