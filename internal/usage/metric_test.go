package usage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// metrics parses metrics in YAML.
func metrics(t *testing.T, text string) []v1alpha1.MetricConfig {
	t.Helper()
	var out []v1alpha1.MetricConfig
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// exposed computes metrics, one object per text, and prints them in the format of Prometheus without help and types, and the errors.
func (w *world) exposed(t *testing.T, texts ...string) string {
	t.Helper()
	var objects []MetricObject
	for i, text := range texts {
		objects = append(objects, MetricObject{object("Metric " + string(rune('a'+i))), metrics(t, text)})
	}
	families, errs := w.plan().Metrics(w.node(), w.pods, objects)
	var all strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&all, f); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	for line := range strings.Lines(all.String()) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	for _, err := range errs {
		out = append(out, "error: "+err.Error()+"\n")
	}
	return strings.Join(out, "")
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// TestMetricDimensions: a series for the node, for each pod in any phase, and for each container of the spec; families in the order of
// their names, labels too.
func TestMetricDimensions(t *testing.T) {
	pending := pod("b", "web")
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending}
	running := pod("a", "web", "vault")
	running.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	w := newWorld(running, pending).rule("web", "cpu", "2")
	equal(t, "metrics", w.exposed(t, `
- {name: pod_cpu, kind: gauge, dimension: pod, labels: [{name: pod, value: pod.metadata.name}], value: 'pod.Usage("cpu")'}
- name: container_cpu
  kind: counter
  dimension: container
  labels: [{name: pod, value: 'pod.metadata.name + "!"'}, {name: container, value: container.name}]
  value: 'pod.CumulativeUsage("cpu", container.name)'
- {name: node_cpu, kind: gauge, value: 'Usage(node, "cpu")'}
`, `
- {name: node_age, kind: counter, value: node.SinceSecond()}
- {name: pod_cpu, kind: gauge, value: '7'}
`), `container_cpu{container="web",pod="a!"} 200
container_cpu{container="vault",pod="a!"} 0.1
container_cpu{container="web",pod="b!"} 0
node_age 100
node_cpu 2.001
pod_cpu{pod="a"} 2.001
pod_cpu{pod="b"} 0
pod_cpu 7
rehearse_metric_errors 0
`)
}

// TestMetricValues: every type of a number that an expression may return.
func TestMetricValues(t *testing.T) {
	for expression, want := range map[string]string{
		"1": "1", "2u": "2", "2.5": "2.5", "true": "1", "1 > 2": "0", "duration('2s')": "2e+09", `Quantity("250m") * 2`: "0.5",
		`node.status.allocatable["cpu"]`: "4", `node.status.allocatable["none"]`: "0", "1.0 / 0.0": "+Inf", "-3": "-3",
		"UnixSecond(Now())": "1.8038917e+09", "Rand() < 1.0": "1",
	} {
		w := newWorld()
		equal(t, expression, w.exposed(t, "- {name: m, kind: gauge, value: '"+strings.ReplaceAll(expression, "'", "''")+"'}"), "m "+want+"\nrehearse_metric_errors 0\n")
	}
	w := newWorld(pod("a", "web", "vault"))
	draw := "- {name: m, kind: gauge, dimension: container, labels: [{name: c, value: container.name}], value: Rand()}\n- {name: n, kind: gauge, value: Rand()}\n- {name: o, kind: gauge, value: Rand()}"
	first := w.exposed(t, draw)
	if second := w.exposed(t, draw); first != second {
		t.Errorf("the same moment: %s and %s", first, second)
	}
	values := map[string]bool{}
	for line := range strings.Lines(first) {
		values[line[strings.LastIndexByte(line, ' '):]] = true
	}
	w.now = w.now.Add(time.Second)
	if second := w.exposed(t, draw); first == second || len(values) != 5 {
		t.Errorf("numbers repeat: %s and %s", first, second)
	}
}

// TestHistogram: the buckets of the response are cumulative, and +Inf is the count of all; a hidden bucket counts in those above it.
func TestHistogram(t *testing.T) {
	const hidden = `
- name: h
  kind: histogram
  dimension: container
  labels: [{name: container, value: container.name}]
  buckets: [{le: 0.5, value: '1'}, {le: 1, value: '2.9', hidden: true}, {le: 2, value: 'container.name == "web"'}, {le: 10, value: '4', hidden: true}]
`
	w := newWorld(pod("a", "web", "vault"))
	equal(t, "histogram", w.exposed(t, hidden), `h_bucket{container="web",le="0.5"} 1
h_bucket{container="web",le="2"} 4
h_bucket{container="web",le="+Inf"} 8
h_sum{container="web"} 44.5
h_count{container="web"} 8
h_bucket{container="vault",le="0.5"} 1
h_bucket{container="vault",le="2"} 3
h_bucket{container="vault",le="+Inf"} 7
h_sum{container="vault"} 42.5
h_count{container="vault"} 7
rehearse_metric_errors 0
`)
	equal(t, "no hidden bucket", w.exposed(t, "- {name: h, kind: histogram, buckets: [{le: 0, value: '3'}, {le: 4, value: '1'}]}"), `h_bucket{le="0"} 3
h_bucket{le="4"} 4
h_bucket{le="+Inf"} 4
h_sum 4
h_count 4
rehearse_metric_errors 0
`)
	equal(t, "negative", w.exposed(t, "- {name: h, kind: histogram, buckets: [{le: 1, value: '-1'}]}"), `rehearse_metric_errors 1
error: Metric a: metric h: bucket with le 1: returns -1; want a count of at least 0
`)
}

// TestMetricErrors: an expression that fails drops only its own series, and an invalid metric only itself.
func TestMetricErrors(t *testing.T) {
	bad, good := pod("bad", "web"), pod("good", "web")
	bad.Annotations = map[string]string{CPUAnnotation: "much"}
	bad.Labels = map[string]string{}
	good.Labels = map[string]string{"app": "shop"}
	w := newWorld(bad, good)
	equal(t, "metrics", w.exposed(t, `
- {name: cpu, kind: gauge, dimension: pod, labels: [{name: pod, value: pod.metadata.name}], value: 'pod.Usage("cpu")'}
- {name: app, kind: gauge, dimension: pod, labels: [{name: app, value: 'pod.metadata.labels["app"]'}], value: '1'}
- {name: number, kind: gauge, dimension: pod, labels: [{name: pod, value: pod.metadata.name}], value: pod.metadata.name}
- {name: label, kind: gauge, labels: [{name: node, value: 'node.metadata.generation'}], value: '1'}
- {name: same, kind: gauge, dimension: pod, labels: [{name: b, value: '"x"'}, {name: a, value: '"y"'}], value: '1'}
- {name: broken, kind: gauge, value: nothing}
- {name: scope, kind: gauge, value: 'pod.Usage("cpu")'}
- {name: rehearse_metric_errors, kind: gauge, value: '1'}
`, "- {name: same, kind: counter, value: '1'}"), `app{app="shop"} 1
cpu{pod="good"} 0.001
same{a="y",b="x"} 1
rehearse_metric_errors 10
error: Metric a: metric cpu of pod shop/bad: value: expression annotation kwok.x-k8s.io/usage-cpu: "much" is not a quantity of at least 0
error: Metric a: metric app of pod shop/bad: label app: expression no such key: app
error: Metric a: metric number of pod shop/bad: value: returns a string; want a number
error: Metric a: metric number of pod shop/good: value: returns a string; want a number
error: Metric a: metric label: label node: returns a int; want a string
error: Metric a: metric same of pod shop/good: another series has the labels {a="y",b="x"}
error: Metric a: spec.metrics[5].value: Invalid value: "nothing": undeclared reference to 'nothing' (in container '')
error: Metric a: spec.metrics[6].value: Invalid value: "pod.Usage(\"cpu\")": a metric of dimension node cannot read pod
error: Metric a: spec.metrics[7].name: Invalid value: "rehearse_metric_errors": is the name of a metric of rehearse
error: Metric b: metric same: kind counter: another object defines the metric as a gauge
`)
}

// TestStartedContainersTotal: the number contains restarts, does not fall when a pod is deleted, and starts at 0 for a new node.
func TestStartedContainersTotal(t *testing.T) {
	a, b, waiting, bare := pod("a", "web", "vault"), pod("b", "web"), pod("c", "web"), pod("d", "web", "vault")
	a.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	b.Status.ContainerStatuses[0].RestartCount = 2
	waiting.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	bare.Status.ContainerStatuses = nil
	w := newWorld(a, b, waiting, bare)
	started := func(want string) {
		t.Helper()
		got := w.exposed(t, `
- {name: a, kind: counter, value: StartedContainersTotal(node)}
- {name: b, kind: counter, value: StartedContainersTotal(node.metadata.name)}
- {name: c, kind: counter, value: node.startedContainersTotal()}
`)
		equal(t, "started containers", got, "a "+want+"\nb "+want+"\nc "+want+"\nrehearse_metric_errors 0\n")
	}
	started("8")
	w.pods = []*corev1.Pod{a, b}
	started("8")
	b.Status.ContainerStatuses[0].RestartCount = 5
	started("11")
	b.Status.ContainerStatuses[0].RestartCount = 1 // a stage may set it back
	started("11")
	w.pods = nil
	started("11")
	again := pod("a", "web")
	again.UID = "another"
	w.pods = []*corev1.Pod{again}
	started("12")
	w.totals.Retain(func(uid apitypes.UID) bool { return uid == "node-0" })
	started("12")
	w.totals.Retain(func(apitypes.UID) bool { return false })
	started("1")
	got := w.exposed(t, "- {name: a, kind: gauge, value: 'StartedContainersTotal(\"node-1\")'}\n- {name: b, kind: gauge, value: StartedContainersTotal(1)}")
	equal(t, "errors", got, `rehearse_metric_errors 2
error: Metric a: metric a: value: expression StartedContainersTotal: node "node-1" is unknown
error: Metric a: metric b: value: expression StartedContainersTotal of a int64: want a node or its name
`)
}

// TestStartTime: the start of a container as Unix time, which is not the age of the pod.
func TestStartTime(t *testing.T) {
	p := pod("a", "web")
	p.Status.StartTime = &metav1.Time{Time: created.Add(5 * time.Second)}
	equal(t, "times", newWorld(p).exposed(t, `
- {name: age, kind: gauge, dimension: pod, value: pod.SinceSecond()}
- {name: start, kind: gauge, dimension: pod, value: pod.status.startTime.UnixSecond()}
`), "age 100\nstart 1.803891605e+09\nrehearse_metric_errors 0\n")
}

// TestCheckMetrics: each invalid object gives an error with the field.
func TestCheckMetrics(t *testing.T) {
	for _, c := range []struct{ path, metric, want string }{
		{"", "", "spec.path: Required value"},
		{"/stats", "", "spec.path: Invalid value: \"/stats\": must be /metrics or begin with /metrics/"},
		{"/metricsa", "", "must be /metrics or begin with /metrics/"},
		{"/metrics/", "", "clients request this path as /metrics"},
		{"/metrics/a/../b", "", "clients request this path as /metrics/b"},
		{"/metrics/resource", "", "each node serves its own metrics at this path"},
		{"/metrics/{podName}", "", "{nodeName} is the only variable"},
		{"/metrics/a?b", "", "must not contain ?"},
		{"/metrics/a", "{name: a-b, kind: gauge, value: '1'}", "spec.metrics[0].name: Invalid value: \"a-b\""},
		{"/metrics/a", "{name: a, kind: summary, value: '1'}", "spec.metrics[0].kind: Unsupported value: \"summary\""},
		{"/metrics/a", "{name: a, kind: gauge, dimension: disk, value: '1'}", "spec.metrics[0].dimension: Unsupported value: \"disk\""},
		{"/metrics/a", "{name: a, kind: gauge}", "spec.metrics[0].value: Required value"},
		{"/metrics/a", "{name: a, kind: gauge, value: '\"a\"'}", "spec.metrics[0].value: Invalid value: \"\\\"a\\\"\": returns a string; want a number"},
		{"/metrics/a", "{name: a, kind: gauge, value: '1', buckets: [{le: 1, value: '1'}]}", "spec.metrics[0].buckets: Forbidden: a gauge has a value"},
		{"/metrics/a", "{name: a, kind: gauge, dimension: pod, value: container.name}", "a metric of dimension pod cannot read container"},
		{"/metrics/a", "{name: a, kind: gauge, value: '1', labels: [{name: 'a:b', value: '\"a\"'}]}", "spec.metrics[0].labels[0].name: Invalid value"},
		{"/metrics/a", "{name: a, kind: gauge, value: '1', labels: [{name: __a, value: '\"a\"'}]}", "spec.metrics[0].labels[0].name: Invalid value"},
		{"/metrics/a", "{name: a, kind: gauge, value: '1', labels: [{name: a, value: '\"a\"'}, {name: a, value: '\"a\"'}]}", "spec.metrics[0].labels[1].name: Duplicate value"},
		{"/metrics/a", "{name: a, kind: gauge, value: '1', labels: [{name: a, value: '1'}]}", "spec.metrics[0].labels[0].value: Invalid value: \"1\": returns a int; want a string"},
		{"/metrics/a", "{name: a, kind: histogram, value: '1'}", "spec.metrics[0].value: Forbidden"},
		{"/metrics/a", "{name: a, kind: histogram}", "spec.metrics[0].buckets: Required value"},
		{"/metrics/a", "{name: a, kind: histogram, buckets: [{le: -1, value: '1'}]}", "spec.metrics[0].buckets[0].le: Invalid value: -1"},
		{"/metrics/a", "{name: a, kind: histogram, buckets: [{le: 2, value: '1'}, {le: 2, value: '1'}]}", "spec.metrics[0].buckets[1].le: Invalid value: 2"},
		{"/metrics/a", "{name: a, kind: histogram, buckets: [{le: 2, value: 'x'}]}", "spec.metrics[0].buckets[0].value: Invalid value: \"x\": undeclared reference"},
		{"/metrics/a", "{name: a, kind: histogram, labels: [{name: le, value: '\"a\"'}], buckets: [{le: 2, value: '1'}]}", "is the label of the buckets"},
		{"/metrics/a", "{name: a, kind: gauge, value: '1'}, {name: a, kind: counter, value: '1'}", "spec.metrics[1].kind: Invalid value: \"counter\": another metric"},
		{"/metrics/a", "{name: a, kind: histogram, buckets: [{le: 2, value: '1'}]}, {name: a_sum, kind: gauge, value: '1'}", "spec.metrics[1].name: Invalid value: \"a_sum\": is a series of the histogram a"},
	} {
		err := CheckMetrics(field.NewPath("spec"), &v1alpha1.MetricSpec{Path: c.path, Metrics: metrics(t, "["+c.metric+"]")})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s\ngot  %v\nwant %s", c.path, c.metric, err, c.want)
		}
	}
	for _, path := range []string{"/metrics", "/metrics/{nodeName}", "/metrics/nodes/{nodeName}/metrics/resource", "/metrics/a-{nodeName}"} {
		spec := &v1alpha1.MetricSpec{Path: path, Metrics: metrics(t, "[{name: 'a:b', kind: counter, value: '1'}]")}
		if err := CheckMetrics(field.NewPath("spec"), spec); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
