package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// metricsServer serves the resource metrics API on this machine: the pods of the app web share a load of 400
// millicores.
type metricsServer struct{ pods client.Client }

// ServeHTTP answers discovery and the list of the pods' metrics.
func (m metricsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const version = "metrics.k8s.io/v1beta1"
	answer := map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": []any{
		map[string]any{"name": "pods", "kind": "PodMetrics", "namespaced": true, "verbs": []string{"get", "list"}},
	}}
	if strings.HasSuffix(r.URL.Path, "/pods") {
		var pods corev1.PodList
		if err := m.pods.List(r.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"app": "web"}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		items := []any{}
		for _, p := range pods.Items {
			items = append(items, map[string]any{
				"metadata":  map[string]any{"name": p.Name, "namespace": p.Namespace},
				"timestamp": time.Now().Format(time.RFC3339), "window": "1ms",
				"containers": []any{map[string]any{"name": "main", "usage": map[string]any{"cpu": fmt.Sprintf("%dm", 400/len(pods.Items)), "memory": "1Mi"}}},
			})
		}
		answer = map[string]any{"kind": "PodMetricsList", "apiVersion": version, "metadata": map[string]any{}, "items": items}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// TestAutoscaling: the upstream HorizontalPodAutoscaler scales a CloneSet by the metrics of a server on this
// machine, which replaces our own metrics API: the APIService names its Service, whose annotation names its port.
func TestAutoscaling(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: 2, HPASyncPeriod: time.Second})
	k, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(metricsServer{k})
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: metrics, namespace: kube-system}
spec:
  selector: {matchLabels: {app: metrics}}
  template:
    metadata: {labels: {app: metrics}}
    spec: {containers: [{name: main, image: metrics}]}
---
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: kube-system, annotations: {%s: "%s"}}
spec: {selector: {app: metrics}, ports: [{port: 443}]}
---
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web, resources: {requests: {cpu: 100m}}}]}
`, apiserver.LocalPortAnnotation, at.Port()), "---\n") {
		create(t, k, text)
	}
	apiService := schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
	own, err := read(t.Context(), k, apiService, "", "v1beta1.metrics.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	// As kubectl apply of the manifests of a metrics server does.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"insecureSkipTLSVerify":true,"service":{"name":"metrics","namespace":"kube-system"}}}`))
	if err := k.Patch(t.Context(), own, patch); err != nil {
		t.Fatal(err)
	}
	await(t, "the metrics API is available", func() error {
		u, err := read(t.Context(), k, apiService, "", "v1beta1.metrics.k8s.io")
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Available" && c["status"] == "True" && c["reason"] == "Passed" {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", conditions)
	})
	replicas := func(want int64) {
		await(t, fmt.Sprintf("%d replicas", want), func() error {
			u, err := read(t.Context(), k, schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}, "default", "web")
			if err != nil {
				return err
			}
			is, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
			available, _, _ := unstructured.NestedInt64(u.Object, "status", "availableReplicas")
			if is != want || available != want {
				return fmt.Errorf("%d replicas, %d available", is, available)
			}
			return nil
		})
	}
	replicas(1)
	create(t, k, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: web}
  minReplicas: 1
  maxReplicas: 4
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`)
	replicas(4)
}
