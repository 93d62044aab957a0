package usage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

var created = time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)

// object is the name of an object.
type object string

func (o object) String() string { return string(o) }

// pod returns a running pod on node-0 with the given containers.
func pod(name string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: apitypes.UID(name), CreationTimestamp: metav1.NewTime(created)},
		Spec:       corev1.PodSpec{NodeName: "node-0"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")},
		}})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(created)}},
		})
	}
	return p
}

// world is a View with constant objects.
type world struct {
	compiler Compiler
	totals   Totals
	now      time.Time
	pods     []*corev1.Pod
	rules    map[string]map[string]v1alpha1.ResourceUsageValue // by container, then by resource
}

func newWorld(pods ...*corev1.Pod) *world {
	return &world{now: created.Add(100 * time.Second), pods: pods, rules: map[string]map[string]v1alpha1.ResourceUsageValue{}}
}

// rule sets the expression for the usage of a container.
func (w *world) rule(container, resource, expression string) *world {
	if w.rules[container] == nil {
		w.rules[container] = map[string]v1alpha1.ResourceUsageValue{}
	}
	w.rules[container][resource] = v1alpha1.ResourceUsageValue{Expression: &expression}
	return w
}

func (w *world) plan() *Plan {
	return NewPlan(&w.compiler, &w.totals, View{
		Now: w.now,
		Rule: func(namespace, pod, container string) *Rule {
			if u := w.rules[container]; u != nil {
				return &Rule{object("ClusterResourceUsage a"), u}
			}
			return nil
		},
		Node: func(name string) *corev1.Node {
			if name != "node-0" {
				return nil
			}
			return w.node()
		},
		Pods: func(string) []*corev1.Pod { return w.pods },
	})
}

func (w *world) node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "node-0", CreationTimestamp: metav1.NewTime(created)},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
	}
}

// text prints usages.
func text(usages []ContainerUsage, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	var out []string
	for _, c := range usages {
		cpu, memory := c.Usage[corev1.ResourceCPU], c.Usage[corev1.ResourceMemory]
		out = append(out, fmt.Sprintf("%s %s %s", c.Name, cpu.String(), memory.String()))
	}
	return strings.Join(out, ", ")
}

// TestDefaults: without a rule, annotations define the usage of each container, else it is 1m and 1Mi.
func TestDefaults(t *testing.T) {
	for _, c := range []struct{ cpu, memory, want string }{
		{"", "", "a 1m 1Mi, b 1m 1Mi"},
		{"100m", "", "a 100m 1Mi, b 100m 1Mi"},
		{"0", "2Gi", "a 0 2Gi, b 0 2Gi"},
		{"much", "", `error: annotation kwok.x-k8s.io/usage-cpu: "much" is not a quantity of at least 0`},
		{"", "-1", `error: annotation kwok.x-k8s.io/usage-memory: "-1" is not a quantity of at least 0`},
	} {
		p := pod("web", "a", "b")
		p.Annotations = map[string]string{}
		for key, value := range map[string]string{CPUAnnotation: c.cpu, MemoryAnnotation: c.memory} {
			if value != "" {
				p.Annotations[key] = value
			}
		}
		if got := text(newWorld(p).plan().Pod(p)); got != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.cpu, c.memory, got, c.want)
		}
	}
}

// TestRule: a value precedes an expression, and a rule precedes the annotations only for the resources that it contains.
func TestRule(t *testing.T) {
	p := pod("web", "a", "b")
	p.Annotations = map[string]string{CPUAnnotation: "7m", MemoryAnnotation: "7Mi"}
	w := newWorld(p)
	w.rules["a"] = map[string]v1alpha1.ResourceUsageValue{
		"cpu":            {Value: ptr.To(resource.MustParse("3")), Expression: ptr.To("1.0")},
		"nvidia.com/gpu": {Value: ptr.To(resource.MustParse("2"))},
	}
	usages, err := w.plan().Pod(p)
	if got := text(usages, err); got != "a 3 7Mi, b 7m 7Mi" {
		t.Error(got)
	}
	if q := usages[0].Usage["nvidia.com/gpu"]; q.String() != "2" || len(usages[1].Usage) != 2 {
		t.Error(usages)
	}
	w.rules["a"]["cpu"] = v1alpha1.ResourceUsageValue{Value: ptr.To(resource.MustParse("-1"))}
	if got := text(w.plan().Pod(p)); got != "error: ClusterResourceUsage a: usage of cpu: -1 is negative" {
		t.Error(got)
	}
}

// TestExpressions evaluates expressions for the CPU of container a, 100 s after the pod was created. Container b uses 500m.
func TestExpressions(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{`Quantity("250m")`, "250m"},
		{`0.25`, "250m"},
		{`2`, "2"},
		{`0.0000000004`, "0"},
		{`0.000000001`, "1n"},
		{`true`, "1"},
		{`SinceSecond(pod) / 1000.0`, "100m"},
		{`pod.SinceSecond() > 60.0 ? Quantity("10m") : Quantity("20m")`, "10m"},
		{`"kwok.x-k8s.io/usage-cpu" in pod.metadata.annotations ? Quantity(pod.metadata.annotations["kwok.x-k8s.io/usage-cpu"]) : Quantity("3m")`, "3m"},
		{`"x" in pod.metadata.labels ? 1.0 : 2.0`, "2"},
		{`container.resources.requests["cpu"] * 0.5`, "100m"},
		{`container.resources.requests["memory"] + Quantity("1")`, "1"},
		{`"memory" in container.resources.limits ? 1.0 : 5.0`, "5"},
		{`node.status.allocatable["cpu"] * 0.5`, "2"},
		{`double(size(node.status.allocatable))`, "1"},
		{`pod.Usage("cpu", "b") * 2.0`, "1"},
		{`Usage(pod, "cpu", "b")`, "500m"},
		{`pod.Usage("memory") / 1048576.0`, "2"},
		{`node.Usage("memory") / 1048576.0`, "4"},
		{`CumulativeUsage(pod, "cpu", "b")`, "50"},
		{`Rand() < 1.0 && Rand() == Rand() ? 1.0 : 2.0`, "1"},
		{`Now() > timestamp("2027-03-01T09:00:00Z") ? 1.0 : 2.0`, "1"},
		{`pod.Usage("cpu")`, `error: ClusterResourceUsage a: usage of cpu: expression ClusterResourceUsage a: usage of cpu: expression reads the usage of cpu of container "a" of pod shop/web, which it defines`},
		{`1.0 - 2.0`, "error: ClusterResourceUsage a: usage of cpu: expression returns -1; a usage must not be negative"},
		{`"1"`, "error: ClusterResourceUsage a: usage of cpu: expression returns a string; want a quantity or a number"},
		{`0.0 / 0.0`, "error: ClusterResourceUsage a: usage of cpu: expression returns NaN"},
		{`pod.metadata.annotations["x"] == "" ? 1.0 : 2.0`, "error: ClusterResourceUsage a: usage of cpu: expression no such key: x"},
		{`pod.metadata.future == "" ? 1.0 : 2.0`, "error: ClusterResourceUsage a: usage of cpu: expression no such field: future"},
		{`pod.Usage(1)`, "error: ClusterResourceUsage a: usage of cpu: expression Usage: want the name of a resource and of a container, got a int"},
		{`container.Usage("cpu")`, "error: ClusterResourceUsage a: usage of cpu: expression usage of a v1.Container: want a pod or a node"},
		{`[1].map(a, [1].map(b, 1)).size() == 1 ? 1e300 : 0.0`, "9223372036854775807"},
	} {
		p, other := pod("web", "a", "b"), pod("other", "c", "d")
		got := text(newWorld(p, other).rule("a", "cpu", c.expression).rule("b", "cpu", `0.5`).plan().Pod(p))
		want := c.want
		if !strings.HasPrefix(want, "error") {
			want = fmt.Sprintf("a %s 1Mi, b 500m 1Mi", want)
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.expression, got, want)
		}
	}
	p := pod("web", "a")
	p.Spec.NodeName = "gone"
	got := text(newWorld(p).rule("a", "cpu", `node.status.allocatable["cpu"]`).plan().Pod(p))
	if !strings.Contains(got, `node "gone" does not exist`) {
		t.Error(got)
	}
}

// TestCheckExpression: an expression that does not compile gives one line. The compiler remembers the error.
func TestCheckExpression(t *testing.T) {
	for text, want := range map[string]string{
		`pod.Usage("cpu")`: "", `1 +`: "Syntax error", `unknown`: "undeclared reference", `Usage("cpu")`: "undeclared reference",
	} {
		err := CheckExpression(text)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	var c Compiler
	for i := range maxPrograms + 2 {
		if err := c.compile(source{v1alpha1.MetricOfContainer, fmt.Sprint(i)}).err; err != nil {
			t.Fatal(err)
		}
	}
	if len(c.programs) > maxPrograms {
		t.Errorf("the compiler keeps %d programs", len(c.programs))
	}
}

// TestRunning: only running containers of running pods count.
func TestRunning(t *testing.T) {
	names := func(p *corev1.Pod) string {
		var out []string
		for _, c := range Running(p) {
			out = append(out, fmt.Sprintf("%s %.0f", c.Name, c.Started.Sub(created).Seconds()))
		}
		return strings.Join(out, ", ")
	}
	p := pod("web", "a", "b", "c")
	p.Spec.InitContainers = []corev1.Container{{Name: "sidecar"}, {Name: "init"}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(created.Add(time.Second))}}},
		{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}
	p.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	p.Status.ContainerStatuses[2].State.Running.StartedAt = metav1.Time{}
	if got := names(p); got != "sidecar 1, a 0, c 0" {
		t.Error(got)
	}
	p.Status.InitContainerStatuses, p.Status.ContainerStatuses = nil, nil
	p.Status.StartTime = ptr.To(metav1.NewTime(created.Add(5 * time.Second)))
	if got := names(p); got != "a 5, b 5, c 5" {
		t.Error(got)
	}
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, ""} {
		p.Status.Phase = phase
		if got := names(p); got != "" {
			t.Errorf("%s: %s", phase, got)
		}
	}
}
