package resourcemetrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// get requests a path of a node through the handler that a ServeMux selects.
func get(t *testing.T, s *Source, path, node string) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, serve := range s.NodePaths() {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) { serve(w, r, node) })
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Header().Get("Content-Type") + "\n" + w.Body.String()
}

// kubeletLike is a Metric as KWOK ships it for metrics-server: the metrics of a kubelet at a path with the name of the node.
const kubeletLike = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: metrics-resource}
spec:
  path: /metrics/nodes/{nodeName}/metrics/resource
  metrics:
  - {name: scrape_error, dimension: node, kind: gauge, value: '0', help: "1 if there was an error\n"}
  - name: container_start_time_seconds
    dimension: container
    help: Start
    kind: gauge
    labels: [{name: container, value: container.name}, {name: namespace, value: pod.metadata.namespace}, {name: pod, value: pod.metadata.name}]
    value: pod.SinceSecond()
  - name: container_cpu_usage_seconds_total
    dimension: container
    kind: counter
    labels: [{name: container, value: container.name}, {name: namespace, value: pod.metadata.namespace}, {name: pod, value: pod.metadata.name}]
    value: pod.CumulativeUsage("cpu", container.name)
  - name: container_memory_working_set_bytes
    dimension: container
    kind: gauge
    labels: [{name: container, value: container.name}, {name: namespace, value: pod.metadata.namespace}, {name: pod, value: pod.metadata.name}]
    value: pod.Usage("memory", container.name)
  - name: pod_cpu_usage_seconds_total
    dimension: pod
    kind: counter
    labels: [{name: namespace, value: pod.metadata.namespace}, {name: pod, value: pod.metadata.name}]
    value: pod.CumulativeUsage("cpu")
  - name: pod_memory_working_set_bytes
    dimension: pod
    kind: gauge
    labels: [{name: namespace, value: pod.metadata.namespace}, {name: pod, value: pod.metadata.name}]
    value: pod.Usage("memory")
  - {name: node_cpu_usage_seconds_total, kind: counter, value: node.CumulativeUsage("cpu")}
  - {name: node_memory_working_set_bytes, kind: gauge, value: node.Usage("memory")}
`

// TestMetricLikeKubelet: the Metric that KWOK ships reports the same usage as the node's own path, and its first scrape counts.
func TestMetricLikeKubelet(t *testing.T) {
	a, s, at := statsCluster(t)
	if err := s.options.Rules.Add("metrics.yaml", []byte(kubeletLike)); err != nil {
		t.Fatal(err)
	}
	for i := range a.pods {
		a.pods[i].CreationTimestamp = metav1.NewTime(now.Add(-20 * time.Second))
	}
	const path = "/metrics/nodes/node-0/metrics/resource"
	code, got := get(t, s, path, "node-0")
	equal(t, "metrics", got, `text/plain; version=0.0.4; charset=utf-8
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="web",namespace="shop",pod="a"} 1
container_cpu_usage_seconds_total{container="vault",namespace="shop",pod="a"} 0.01
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="web",namespace="shop",pod="a"} 1.048576e+07
container_memory_working_set_bytes{container="vault",namespace="shop",pod="a"} 1.048576e+06
# HELP container_start_time_seconds Start
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="web",namespace="shop",pod="a"} 20
container_start_time_seconds{container="vault",namespace="shop",pod="a"} 20
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 1.01
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 1.1534336e+07
# TYPE pod_cpu_usage_seconds_total counter
pod_cpu_usage_seconds_total{namespace="shop",pod="a"} 1.01
# TYPE pod_memory_working_set_bytes gauge
pod_memory_working_set_bytes{namespace="shop",pod="a"} 1.1534336e+07
# HELP scrape_error 1 if there was an error
# TYPE scrape_error gauge
scrape_error 0
# HELP rehearse_metric_errors Number of series that this response does not contain, because an expression failed or the definition is invalid
# TYPE rehearse_metric_errors gauge
rehearse_metric_errors 0
`)
	if code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	// Another node at the same path has its own series, and a second request gives the same answer.
	if _, other := get(t, s, "/metrics/nodes/node-1/metrics/resource", "node-1"); !strings.Contains(other, `pod="other"`) || strings.Contains(other, `pod="a"`) {
		t.Errorf("node-1: %s", other)
	}
	if _, again := get(t, s, path, "node-0"); again != got {
		t.Errorf("second request: %s", again)
	}
	// The path agrees with the node's own one after time has passed, and with a pod whose usage has an error.
	*at = at.Add(10 * time.Second)
	if _, later := get(t, s, path, "node-0"); !strings.Contains(later, "\nnode_cpu_usage_seconds_total 2.02\n") {
		t.Errorf("after 10 s: %s", later)
	}
	if _, own := get(t, s, "/metrics/resource", "node-0"); !strings.Contains(own, "\nnode_cpu_usage_seconds_total 2.02 ") {
		t.Errorf("own path: %s", own)
	}
	for path, node := range map[string]string{path: "node-1", "/metrics/nodes/node-9/metrics/resource": "node-9", "/metrics": "node-0", "/metrics/nodes": "node-0"} {
		want := "no Metric object has the path " + path + " for node " + node
		if node == "node-9" {
			want = `nodes "node-9" not found`
		}
		if code, got := get(t, s, path, node); code != http.StatusNotFound || !strings.Contains(got, want) {
			t.Errorf("%s of %s: %d %s, want %s", path, node, code, got, want)
		}
	}
}

// stored returns a list of Metric objects of the API with one gauge each.
func stored(value string, names ...string) string {
	var items []string
	for i, name := range names {
		items = append(items, fmt.Sprintf(`{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":"Metric","metadata":{"name":%q,"creationTimestamp":"2027-01-01T00:00:%02dZ"},`+
			`"spec":{"path":"/metrics","metrics":[{"name":"m","kind":"gauge","value":%q,"labels":[{"name":"object","value":"\"%s\""}]}]}}`, name, 59-i, value, name))
	}
	return `{"kind":"MetricList","apiVersion":"kwok.x-k8s.io/v1alpha1","items":[` + strings.Join(items, ",") + `]}`
}

// TestStoredMetrics: objects of files precede those of the API, which are in the order of their age, and each change applies to the next
// request.
func TestStoredMetrics(t *testing.T) {
	a, s, _ := statsCluster(t)
	file := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Metric\nmetadata: {name: file}\n" +
		"spec: {path: /metrics, metrics: [{name: m, kind: gauge, value: '1', labels: [{name: object, value: '\"file\"'}]}]}\n"
	if err := s.options.Rules.Add("metrics.yaml", []byte(file)); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		code, got := get(t, s, "/metrics", "node-0")
		var lines []string
		for line := range strings.Lines(got) {
			if strings.HasPrefix(line, "m{") || strings.HasPrefix(line, "rehearse") || strings.HasPrefix(line, "# error") || strings.HasPrefix(line, "# and") {
				lines = append(lines, line)
			}
		}
		if got := strings.Join(lines, ""); code != http.StatusOK || got != want {
			t.Errorf("%d\ngot  %s\nwant %s", code, got, want)
		}
	}
	check("m{object=\"file\"} 1\nrehearse_metric_errors 0\n")
	a.usages = map[string]string{"metrics": stored("2", "young", "old")}
	check("m{object=\"file\"} 1\nm{object=\"old\"} 2\nm{object=\"young\"} 2\nrehearse_metric_errors 0\n")
	a.usages = map[string]string{"metrics": stored("3", "old")}
	check("m{object=\"file\"} 1\nm{object=\"old\"} 3\nrehearse_metric_errors 0\n")
	a.usages = map[string]string{"metrics": stored("nothing", "a", "b", "c", "d", "e", "f", "g")}
	want := "m{object=\"file\"} 1\nrehearse_metric_errors 7\n"
	for _, name := range []string{"g", "f", "e", "d", "c"} {
		want += "# error: Metric " + name + ": spec.metrics[0].value: Invalid value: \"nothing\": undeclared reference to 'nothing' (in container '')\n"
	}
	check(want + "# and 2 more errors\n")
	a.usages = nil
	check("m{object=\"file\"} 1\nrehearse_metric_errors 0\n")
}

// TestMetricsFail: without a cluster the path is unavailable, and a failed read of the API is an error.
func TestMetricsFail(t *testing.T) {
	a, s, _ := statsCluster(t)
	a.usages = map[string]string{"metrics": stored("StartedContainersTotal(node)", "a")}
	a.pods[0].Status.StartTime = ptr.To(metav1.NewTime(now))
	if code, got := get(t, s, "/metrics", "node-0"); code != http.StatusOK || !strings.Contains(got, "\nm{object=\"a\"} 2\n") {
		t.Errorf("%d %s", code, got)
	}
	for _, failing := range []string{"metrics", "nodes"} {
		a.failing = failing
		if code, got := get(t, s, "/metrics", "node-0"); code != http.StatusInternalServerError || !strings.Contains(got, "broken") {
			t.Errorf("%s: %d %s", failing, code, got)
		}
	}
	if code, got := get(t, New(Options{}), "/metrics", "node-0"); code != http.StatusServiceUnavailable {
		t.Errorf("not connected: %d %s", code, got)
	}
}
