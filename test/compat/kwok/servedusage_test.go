//go:build unix

package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// usageFiles define the usage of pods and a Metric. KWOK's demonstration of resource usage names both; the kustomization of the
// last one's directory lists both, too.
var usageFiles = []string{"kustomize/metrics/resource/metrics-resource.yaml", "kustomize/metrics/usage/usage-from-annotation.yaml"}

// TestShippedUsageIsServed: with KWOK's files for usage, the resource metrics API has the values of the annotations, and the path of the
// Metric can be scraped.
func TestShippedUsageIsServed(t *testing.T) {
	s := serve(t, filepath.Join(moduleRoot(t), "kustomize", "metrics", "usage"))
	s.pod(t, "busy", map[string]string{usage.CPUAnnotation: "250m", usage.MemoryAnnotation: "64Mi"}, "a", "b")
	s.pod(t, "idle", nil, "a")
	get := func(path string) (string, error) {
		data, err := s.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		return string(data), err
	}
	// What kubectl top reads. The cache of pods follows the API server.
	type amounts struct{ CPU, Memory string }
	var pods, nodes struct {
		Items []struct {
			Metadata   struct{ Name string }
			Usage      amounts
			Containers []struct {
				Name  string
				Usage amounts
			}
		}
	}
	top := func() string {
		var text []string
		for path, into := range map[string]any{"namespaces/default/pods": &pods, "nodes": &nodes} {
			data, err := get("/apis/metrics.k8s.io/v1beta1/" + path)
			if err == nil {
				err = json.Unmarshal([]byte(data), into)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range pods.Items {
			for _, c := range p.Containers {
				text = append(text, fmt.Sprint(p.Metadata.Name, " ", c.Name, " ", c.Usage.CPU, " ", c.Usage.Memory))
			}
		}
		for _, n := range nodes.Items {
			text = append(text, fmt.Sprint(n.Metadata.Name, " ", n.Usage.CPU, " ", n.Usage.Memory))
		}
		return strings.Join(text, ", ")
	}
	// As in KWOK, each container has the value of its pod's annotation.
	want, got := "busy a 250m 64Mi, busy b 250m 64Mi, idle a 1m 1Mi, node-0 501m 129Mi", ""
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		got = top()
		return got == want, nil
	})
	if err != nil {
		t.Fatalf("got  %s\nwant %s", got, want)
	}

	const proxy, path = "/api/v1/nodes/node-0/proxy", "/metrics/nodes/node-0/metrics/resource"
	scrape := func() map[string]float64 {
		text, err := get(proxy + path)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if values[series], err = strconv.ParseFloat(value, 64); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		return values
	}
	before, after := scrape(), scrape()
	const busy, idle = `namespace="default",pod="busy"`, `namespace="default",pod="idle"`
	const mebibyte, podMemory = 1 << 20, "pod_memory_working_set_bytes"
	for series, want := range map[string]float64{
		"scrape_error":                  0,
		"rehearse_metric_errors":        0,
		"node_memory_working_set_bytes": 129 * mebibyte,
		podMemory + "{" + busy + "}":    128 * mebibyte,
		podMemory + "{" + idle + "}":    mebibyte,
		`container_memory_working_set_bytes{container="b",` + busy + "}": 64 * mebibyte,
	} {
		if got, ok := after[series]; !ok || got != want {
			t.Errorf("%s: %v, %t, want %v", series, got, ok, want)
		}
	}
	const seconds = "_cpu_usage_seconds_total"
	for _, series := range []string{
		"node" + seconds, "pod" + seconds + "{" + busy + "}", "container" + seconds + `{container="a",` + busy + "}", "container" + seconds + `{container="a",` + idle + "}",
	} {
		if a, ok := after[series]; !ok || a <= 0 || a < before[series] {
			t.Errorf("%s: %v after %v", series, a, before[series])
		}
	}
	if _, ok := after[`container_start_time_seconds{container="a",`+idle+"}"]; !ok || len(after) != len(before) {
		t.Errorf("series %v", after)
	}
	if found, err := get(proxy + "/discovery/prometheus"); err != nil || !strings.Contains(found, proxy+path) || !strings.Contains(found, `"metrics_name":"metrics-resource"`) {
		t.Errorf("%s %v", found, err)
	}

	// The values above are those of a cluster without rules too. An error shows that the object of KWOK decides.
	s.pod(t, "wrong", map[string]string{usage.CPUAnnotation: "much"}, "a")
	const reason = "ClusterResourceUsage usage-from-annotation of file "
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, err = get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/wrong")
		return err != nil && !apierrors.IsNotFound(err), nil
	})
	if body, _ := get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/wrong"); err != nil || !strings.Contains(body, reason) {
		t.Errorf("got %s, %v, want an error of the %s", body, err, reason)
	}
}
