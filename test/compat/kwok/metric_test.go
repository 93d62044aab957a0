package kwok

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// TestShippedMetric: the Metric and the ClusterResourceUsage that KWOK ships decode unchanged, and each metric has its series.
func TestShippedMetric(t *testing.T) {
	root, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	set := &rules.Set{}
	for _, name := range []string{"resource/metrics-resource.yaml", "usage/usage-from-annotation.yaml"} {
		file := filepath.Join(root, "..", "metrics", filepath.FromSlash(name))
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Add(file, data); err != nil {
			t.Fatal(err)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "node-0", CreationTimestamp: metav1.NewTime(now)}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "web", CreationTimestamp: metav1.NewTime(now.Add(-10e9)),
			Annotations: map[string]string{usage.CPUAnnotation: "200m"},
		},
		Spec:   corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	usages := rules.NewUsages(set.Usages)
	plan := usage.NewPlan(&usage.Compiler{}, &usage.Totals{}, usage.View{
		Now: now,
		Rule: func(namespace, pod, container string) *usage.Rule {
			m := usages.Of(namespace, pod, container)
			return &usage.Rule{Object: m.Object, Usage: m.Entry.Usage}
		},
		Node: func(string) *corev1.Node { return node },
		Pods: func(string) []*corev1.Pod { return []*corev1.Pod{pod} },
	})
	m := set.Metrics[0]
	families, errs := plan.Metrics(node, []*corev1.Pod{pod}, []usage.MetricObject{{Object: m, Metrics: m.Spec.Metrics}})
	if len(errs) > 0 || len(families) != len(m.Spec.Metrics)+1 {
		t.Errorf("%d families of %d metrics, errors %v", len(families), len(m.Spec.Metrics), errs)
	}
	want := map[string]float64{"node_cpu_usage_seconds_total": 4, "container_cpu_usage_seconds_total": 2, "pod_memory_working_set_bytes": 2 << 20}
	for _, f := range families {
		value, ok := want[f.GetName()]
		if got := f.GetMetric()[0]; ok && !slices.Contains([]float64{got.GetCounter().GetValue(), got.GetGauge().GetValue()}, value) {
			t.Errorf("%s: %v, want %v", f.GetName(), got, value)
		}
	}
}
