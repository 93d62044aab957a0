package resourcemetrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// path requests a path of a node.
func path(t *testing.T, s *Source, path, node string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.NodePaths()[path](w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), node)
	return w.Code, w.Body.String()
}

// statsCluster has a pod on node-0 that started 10 s ago, and a source whose time the result sets.
func statsCluster(t *testing.T) (*api, *Source, *time.Time) {
	a, at := &api{}, now
	s := a.source(t, file)
	s.options.Now = func() time.Time { return at }
	a.node("node-0")
	a.node("node-1")
	a.nodes[0].UID, a.nodes[1].UID = "0", "1"
	a.nodes[0].CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	a.nodes[0].Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	p := a.pod("shop", "a", "node-0", "web", "vault")
	p.Status.StartTime = ptr.To(metav1.NewTime(now.Add(-10 * time.Second)))
	a.pod("shop", "other", "node-1", "web").CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Second))
	return a, s, &at
}

// TestResourceMetrics: the format and the names are those of a kubelet; the cumulative CPU starts at the start of the containers.
func TestResourceMetrics(t *testing.T) {
	a, s, at := statsCluster(t)
	code, got := path(t, s, "/metrics/resource", "node-0")
	equal(t, "metrics", got, `# HELP container_cpu_usage_seconds_total Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="web",namespace="shop",pod="a"} 1 1803891600000
container_cpu_usage_seconds_total{container="vault",namespace="shop",pod="a"} 0.01 1803891600000
# HELP container_memory_working_set_bytes Current working set of the container in bytes
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="web",namespace="shop",pod="a"} 1.048576e+07 1803891600000
container_memory_working_set_bytes{container="vault",namespace="shop",pod="a"} 1.048576e+06 1803891600000
# HELP container_start_time_seconds Start time of the container since unix epoch in seconds
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="web",namespace="shop",pod="a"} 1.80389159e+09
container_start_time_seconds{container="vault",namespace="shop",pod="a"} 1.80389159e+09
# HELP node_cpu_usage_seconds_total Cumulative cpu time consumed by the node in core-seconds
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 1.01 1803891600000
# HELP node_memory_working_set_bytes Current working set of the node in bytes
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 1.1534336e+07 1803891600000
# HELP pod_cpu_usage_seconds_total Cumulative cpu time consumed by the pod in core-seconds
# TYPE pod_cpu_usage_seconds_total counter
pod_cpu_usage_seconds_total{namespace="shop",pod="a"} 1.01 1803891600000
# HELP pod_memory_working_set_bytes Current working set of the pod in bytes
# TYPE pod_memory_working_set_bytes gauge
pod_memory_working_set_bytes{namespace="shop",pod="a"} 1.1534336e+07 1803891600000
# HELP resource_scrape_error 1 if there was an error while getting container metrics, 0 otherwise
# TYPE resource_scrape_error gauge
resource_scrape_error 0
`)
	if code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	*at = at.Add(10 * time.Second)
	a.pod("shop", "bad", "node-0", "web", "vault").Annotations[usage.CPUAnnotation] = "much"
	_, got = path(t, s, "/metrics/resource", "node-0")
	for _, line := range []string{"\nnode_cpu_usage_seconds_total 2.02 ", "\nresource_scrape_error 1\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("%s does not contain %q", got, line)
		}
	}
	if strings.Contains(got, "bad") {
		t.Errorf("a pod with an error has metrics: %s", got)
	}
}

// TestNodeTotalsRemain: the total of a node does not fall when its pods are deleted, and totals of deleted objects are removed.
func TestNodeTotalsRemain(t *testing.T) {
	a, s, at := statsCluster(t)
	cpu := func(node, want string) {
		t.Helper()
		if _, got := path(t, s, "/metrics/resource", node); !strings.Contains(got, "\nnode_cpu_usage_seconds_total "+want+" ") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	cpu("node-0", "1.01")
	cpu("node-1", "1")
	a.pods = a.pods[1:]
	*at = at.Add(2 * retainPeriod)
	cpu("node-0", "1.01")
	cpu("node-1", "13")
	a.nodes = a.nodes[:1]
	a.pods = nil
	*at = at.Add(2 * retainPeriod)
	cpu("node-0", "1.01")
	if code, got := path(t, s, "/metrics/resource", "node-1"); code != http.StatusNotFound || got != "nodes \"node-1\" not found\n" {
		t.Errorf("deleted node: %d %s", code, got)
	}
	a.node("node-1") // a new node with the name of the deleted one
	a.nodes[1].UID = "2"
	cpu("node-1", "0")
}

// TestSummary: the Summary API contains the CPU and memory of the node, its pods and their containers.
func TestSummary(t *testing.T) {
	a, s, _ := statsCluster(t)
	_, got := path(t, s, "/stats/summary", "node-0")
	equal(t, "summary", got, `{"node":{"nodeName":"node-0","startTime":"2027-03-01T08:00:00Z",`+
		`"cpu":{"time":"2027-03-01T09:00:00Z","usageNanoCores":101000000,"usageCoreNanoSeconds":1010000000},`+
		`"memory":{"time":"2027-03-01T09:00:00Z","availableBytes":1062207488,"usageBytes":11534336,"workingSetBytes":11534336}},`+
		`"pods":[{"podRef":{"name":"a","namespace":"shop","uid":"shopa"},"startTime":"2027-03-01T08:59:50Z","containers":[`+
		`{"name":"web","startTime":"2027-03-01T08:59:50Z","cpu":{"time":"2027-03-01T09:00:00Z","usageNanoCores":100000000,"usageCoreNanoSeconds":1000000000},`+
		`"memory":{"time":"2027-03-01T09:00:00Z","usageBytes":10485760,"workingSetBytes":10485760}},`+
		`{"name":"vault","startTime":"2027-03-01T08:59:50Z","cpu":{"time":"2027-03-01T09:00:00Z","usageNanoCores":1000000,"usageCoreNanoSeconds":10000000},`+
		`"memory":{"time":"2027-03-01T09:00:00Z","usageBytes":1048576,"workingSetBytes":1048576}}],`+
		`"cpu":{"time":"2027-03-01T09:00:00Z","usageNanoCores":101000000,"usageCoreNanoSeconds":1010000000},`+
		`"memory":{"time":"2027-03-01T09:00:00Z","usageBytes":11534336,"workingSetBytes":11534336}}]}`+"\n")
	a.failing = "nodes"
	if code, got := path(t, s, "/stats/summary", "node-0"); code != http.StatusInternalServerError || !strings.Contains(got, "broken") {
		t.Errorf("nodes cannot be read: %d %s", code, got)
	}
}
