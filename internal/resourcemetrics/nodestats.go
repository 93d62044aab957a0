package resourcemetrics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apitypes "k8s.io/apimachinery/pkg/types"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// retainPeriod is how often the totals of deleted pods and nodes are removed.
const retainPeriod = time.Minute

// NodePaths returns the handlers of the paths of a kubelet that report usage and metrics, by path or pattern of http.ServeMux. Each serves the
// node with a given name.
func (s *Source) NodePaths() map[string]func(w http.ResponseWriter, r *http.Request, node string) {
	serve := func(contentType string, write func(io.Writer, *nodeStats) error) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, r *http.Request, node string) {
			n, err := s.nodeStats(r.Context(), node)
			if err != nil {
				fail(w, err)
				return
			}
			w.Header().Set("Content-Type", contentType)
			_ = write(w, n) // the client has left
		}
	}
	return map[string]func(http.ResponseWriter, *http.Request, string){
		"/metrics/resource": serve("text/plain; version=0.0.4; charset=utf-8", writeResourceMetrics),
		"/stats/summary":    serve("application/json", writeSummary),
		"/metrics":          s.serveMetrics,
		"/metrics/":         s.serveMetrics,
	}
}

// fail answers a request with an error, and with its status if the API server has set one.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code = int(status.Status().Code)
	}
	http.Error(w, err.Error(), code)
}

// measure is CPU and memory at one moment.
type measure struct {
	cores, memory resource.Quantity
	coreSeconds   float64 // since the start
}

func (m *measure) add(other measure) {
	m.cores.Add(other.cores)
	m.memory.Add(other.memory)
	m.coreSeconds += other.coreSeconds
}

type containerStats struct {
	usage.Container
	measure
}

type podStats struct {
	pod        *corev1.Pod
	containers []containerStats
	measure
}

// nodeStats is the usage of a node and its pods.
type nodeStats struct {
	now  time.Time
	node *corev1.Node
	pods []podStats
	measure
	failed bool // the usage of a pod has an error; pods does not contain it
}

// nodeStats measures a node.
func (s *Source) nodeStats(ctx context.Context, name string) (*nodeStats, error) {
	r, err := s.begin(ctx, metav1.NamespaceAll, "")
	if err != nil {
		return nil, err
	}
	node, all, err := r.nodeAndPods(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retain(r, all)
	pods := sortedPodsOf(name, all)
	plan := s.plan(r)
	n := &nodeStats{now: r.now, node: node}
	for _, pod := range pods {
		p, err := measurePod(plan, pod)
		if err != nil {
			n.failed = true
			continue
		}
		if len(p.containers) > 0 {
			n.pods = append(n.pods, p)
			n.add(p.measure)
		}
	}
	n.coreSeconds = plan.NodeTotal(node, corev1.ResourceCPU, n.cores, n.coreSeconds)
	return n, r.err
}

// nodeAndPods reads a node, and the pods of all nodes. If the node does not exist, the error is NotFound.
func (r *request) nodeAndPods(name string) (*corev1.Node, []*corev1.Pod, error) {
	if err := r.readNodes(metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}); err != nil {
		return nil, nil, err
	}
	node := r.nodes[name]
	if node == nil {
		return nil, nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	all, err := r.cluster.pods.Pods(r.ctx, metav1.NamespaceAll)
	return node, all, err
}

// sortedPodsOf returns the pods of a node by namespace and name. It overwrites the slice all.
func sortedPodsOf(node string, all []*corev1.Pod) []*corev1.Pod {
	pods := slices.DeleteFunc(all, func(p *corev1.Pod) bool { return p.Spec.NodeName != node })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return pods
}

// retain removes the totals of pods and nodes that do not exist, once per retainPeriod.
func (s *Source) retain(r *request, pods []*corev1.Pod) {
	if r.now.Sub(s.retained) < retainPeriod {
		return
	}
	nodes, err := r.clients.core.Nodes().List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return // the next request tries again
	}
	s.retained = r.now
	exists := make(map[apitypes.UID]bool, len(pods)+len(nodes.Items))
	for _, p := range pods {
		exists[p.UID] = true
	}
	for i := range nodes.Items {
		exists[nodes.Items[i].UID] = true
	}
	s.totals.Retain(func(uid apitypes.UID) bool { return exists[uid] })
}

func measurePod(plan *usage.Plan, pod *corev1.Pod) (podStats, error) {
	usages, err := plan.Pod(pod)
	if err != nil {
		return podStats{}, err
	}
	out := podStats{pod: pod}
	for i, c := range usage.Running(pod) {
		seconds, err := plan.ContainerTotal(pod, c, corev1.ResourceCPU)
		if err != nil {
			return podStats{}, err
		}
		m := measure{usages[i].Usage[corev1.ResourceCPU], usages[i].Usage[corev1.ResourceMemory], seconds}
		out.containers = append(out.containers, containerStats{c, m})
		out.add(m)
	}
	return out, nil
}

// family is one metric of /metrics/resource.
type family struct {
	name, help, kind string
	lines            []string
}

func (f *family) add(labels string, value float64, at string) {
	f.lines = append(f.lines, f.name+labels+" "+strconv.FormatFloat(value, 'g', -1, 64)+at+"\n")
}

// writeResourceMetrics writes what metrics-server reads from a kubelet, in the format of Prometheus.
func writeResourceMetrics(w io.Writer, n *nodeStats) error {
	containerCPU := &family{name: "container_cpu_usage_seconds_total", help: "Cumulative cpu time consumed by the container in core-seconds", kind: "counter"}
	containerMemory := &family{name: "container_memory_working_set_bytes", help: "Current working set of the container in bytes", kind: "gauge"}
	containerStart := &family{name: "container_start_time_seconds", help: "Start time of the container since unix epoch in seconds", kind: "gauge"}
	nodeCPU := &family{name: "node_cpu_usage_seconds_total", help: "Cumulative cpu time consumed by the node in core-seconds", kind: "counter"}
	nodeMemory := &family{name: "node_memory_working_set_bytes", help: "Current working set of the node in bytes", kind: "gauge"}
	podCPU := &family{name: "pod_cpu_usage_seconds_total", help: "Cumulative cpu time consumed by the pod in core-seconds", kind: "counter"}
	podMemory := &family{name: "pod_memory_working_set_bytes", help: "Current working set of the pod in bytes", kind: "gauge"}
	scrapeError := &family{name: "resource_scrape_error", help: "1 if there was an error while getting container metrics, 0 otherwise", kind: "gauge"}

	at := " " + strconv.FormatInt(n.now.UnixMilli(), 10)
	nodeCPU.add("", n.coreSeconds, at)
	nodeMemory.add("", n.memory.AsApproximateFloat64(), at)
	for _, p := range n.pods {
		pod := fmt.Sprintf("namespace=%q,pod=%q}", p.pod.Namespace, p.pod.Name)
		podCPU.add("{"+pod, p.coreSeconds, at)
		podMemory.add("{"+pod, p.memory.AsApproximateFloat64(), at)
		for _, c := range p.containers {
			labels := fmt.Sprintf("{container=%q,", c.Name) + pod
			containerCPU.add(labels, c.coreSeconds, at)
			containerMemory.add(labels, c.memory.AsApproximateFloat64(), at)
			containerStart.add(labels, float64(c.Started.UnixMilli())/1000, "")
		}
	}
	failed := 0.0
	if n.failed {
		failed = 1
	}
	scrapeError.add("", failed, "")
	for _, f := range []*family{containerCPU, containerMemory, containerStart, nodeCPU, nodeMemory, podCPU, podMemory, scrapeError} {
		if len(f.lines) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s", f.name, f.help, f.name, f.kind, strings.Join(f.lines, "")); err != nil {
			return err
		}
	}
	return nil
}

// writeSummary writes the Summary API of a kubelet, with CPU and memory.
func writeSummary(w io.Writer, n *nodeStats) error {
	now := metav1.NewTime(n.now)
	cpu := func(m measure) *stats.CPUStats {
		return &stats.CPUStats{
			Time:                 now,
			UsageNanoCores:       ptr.To(uint64(m.cores.ScaledValue(resource.Nano))),
			UsageCoreNanoSeconds: ptr.To(uint64(math.Round(m.coreSeconds * 1e9))),
		}
	}
	memory := func(m measure) *stats.MemoryStats {
		bytes := uint64(m.memory.Value())
		return &stats.MemoryStats{Time: now, UsageBytes: &bytes, WorkingSetBytes: &bytes}
	}
	summary := stats.Summary{
		Node: stats.NodeStats{NodeName: n.node.Name, StartTime: n.node.CreationTimestamp, CPU: cpu(n.measure), Memory: memory(n.measure)},
		Pods: []stats.PodStats{},
	}
	if capacity, ok := n.node.Status.Capacity[corev1.ResourceMemory]; ok {
		summary.Node.Memory.AvailableBytes = ptr.To(uint64(max(capacity.Value()-n.memory.Value(), 0)))
	}
	for _, p := range n.pods {
		out := stats.PodStats{
			PodRef:    stats.PodReference{Name: p.pod.Name, Namespace: p.pod.Namespace, UID: string(p.pod.UID)},
			StartTime: ptr.Deref(p.pod.Status.StartTime, p.pod.CreationTimestamp),
			CPU:       cpu(p.measure), Memory: memory(p.measure),
		}
		for _, c := range p.containers {
			out.Containers = append(out.Containers, stats.ContainerStats{
				Name: c.Name, StartTime: metav1.NewTime(c.Started), CPU: cpu(c.measure), Memory: memory(c.measure),
			})
		}
		summary.Pods = append(summary.Pods, out)
	}
	return json.NewEncoder(w).Encode(summary)
}
