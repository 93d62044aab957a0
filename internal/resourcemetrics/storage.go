package resourcemetrics

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/metrics/pkg/apis/metrics"

	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// window is the reported time over which the usage was measured. It is short, because the usage is that of one moment, and
// because the horizontal pod autoscaler ignores the CPU of a pod until it has been ready for one window.
const window = time.Second

// maxWarnings is how many objects without metrics a list names.
const maxWarnings = 5

var (
	_ rest.Getter               = podStorage{}
	_ rest.Lister               = podStorage{}
	_ rest.Scoper               = podStorage{}
	_ rest.SingularNameProvider = podStorage{}
	_ rest.Getter               = nodeStorage{}
	_ rest.Lister               = nodeStorage{}
	_ rest.Scoper               = nodeStorage{}
	_ rest.SingularNameProvider = nodeStorage{}
)

// podStorage serves the metrics of pods.
type podStorage struct{ source *Source }

// New implements rest.Storage.
func (podStorage) New() runtime.Object { return &metrics.PodMetrics{} }

// Destroy implements rest.Storage.
func (podStorage) Destroy() {}

// NewList implements rest.Lister.
func (podStorage) NewList() runtime.Object { return &metrics.PodMetricsList{} }

// NamespaceScoped implements rest.Scoper.
func (podStorage) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider. The resource has none, because "pod" is that of the core group.
func (podStorage) GetSingularName() string { return "" }

// Get implements rest.Getter. A pod that does not run has no metrics.
func (p podStorage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	namespace := genericapirequest.NamespaceValue(ctx)
	r, err := p.source.begin(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	pod, err := r.cluster.pods.Pod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if pod == nil || pod.Status.Phase != corev1.PodRunning {
		return nil, apierrors.NewNotFound(metrics.Resource("pods"), name)
	}
	p.source.mu.Lock()
	defer p.source.mu.Unlock()
	m, err := podMetrics(p.source.plan(r), r, pod)
	if err := cmp.Or(r.err, err); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return m, nil
}

// List implements rest.Lister.
func (p podStorage) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	namespace := genericapirequest.NamespaceValue(ctx)
	r, err := p.source.begin(ctx, namespace, "")
	if err != nil {
		return nil, err
	}
	pods, err := r.cluster.pods.Pods(ctx, namespace)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning || !selects(o, pod) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	p.source.mu.Lock()
	defer p.source.mu.Unlock()
	plan, missing := p.source.plan(r), missing{}
	list := &metrics.PodMetricsList{Items: make([]metrics.PodMetrics, 0, len(pods))}
	for _, pod := range pods {
		if m, err := podMetrics(plan, r, pod); err != nil {
			missing.add(pod, err)
		} else {
			list.Items = append(list.Items, *m)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	missing.warn(ctx)
	return list, nil
}

// ConvertToTable implements rest.TableConvertor.
func (podStorage) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	var items []metrics.PodMetrics
	switch o := object.(type) {
	case *metrics.PodMetrics:
		items = []metrics.PodMetrics{*o}
	case *metrics.PodMetricsList:
		items = o.Items
	}
	return table(items, func(m *metrics.PodMetrics) row {
		total := corev1.ResourceList{}
		for _, c := range m.Containers {
			add(total, c.Usage)
		}
		return row{m, m.Name, total, m.Window.Duration}
	}), nil
}

func podMetrics(plan *usage.Plan, r *request, pod *corev1.Pod) (*metrics.PodMetrics, error) {
	containers, err := plan.Pod(pod)
	if err != nil {
		return nil, err
	}
	m := &metrics.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, CreationTimestamp: metav1.NewTime(r.now)},
		Timestamp:  metav1.NewTime(r.now),
		Window:     metav1.Duration{Duration: window},
		Containers: make([]metrics.ContainerMetrics, 0, len(containers)),
	}
	for _, c := range containers {
		m.Containers = append(m.Containers, metrics.ContainerMetrics{Name: c.Name, Usage: c.Usage})
	}
	return m, nil
}

// selects reports whether the selectors of a request match an object.
func selects(o *internalversion.ListOptions, object metav1.Object) bool {
	if o == nil {
		return true
	}
	if o.LabelSelector != nil && !o.LabelSelector.Empty() && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	return o.FieldSelector == nil || o.FieldSelector.Empty() ||
		o.FieldSelector.Matches(fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()})
}

// missing collects the pods whose usage has an error. Such a pod is left out of a list, as if its metrics had not been collected.
type missing struct {
	warnings []string
	more     int
}

func (m *missing) add(pod *corev1.Pod, err error) {
	if len(m.warnings) < maxWarnings {
		m.warnings = append(m.warnings, fmt.Sprintf("no metrics of pod %s/%s: %v", pod.Namespace, pod.Name, err))
	} else {
		m.more++
	}
}

// warn sends the errors to the client as warnings, which kubectl prints.
func (m *missing) warn(ctx context.Context) {
	for _, w := range m.warnings {
		warning.AddWarning(ctx, "", w)
	}
	if m.more > 0 {
		warning.AddWarning(ctx, "", fmt.Sprintf("no metrics of %d more pods", m.more))
	}
}

// add adds usage to a sum.
func add(sum, usage corev1.ResourceList) {
	for name, q := range usage {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

// row is one row of a table.
type row struct {
	object runtime.Object
	name   string
	usage  corev1.ResourceList
	window time.Duration
}

// table prints metrics with CPU and memory.
func table[M any](items []M, rowOf func(*M) row) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object"},
		{Name: "CPU", Type: "string", Description: "CPU usage in cores"},
		{Name: "Memory", Type: "string", Description: "Memory usage in bytes"},
		{Name: "Window", Type: "string", Description: "Time over which the usage was measured"},
	}}
	for i := range items {
		r := rowOf(&items[i])
		cpu, memory := r.usage[corev1.ResourceCPU], r.usage[corev1.ResourceMemory]
		t.Rows = append(t.Rows, metav1.TableRow{
			Cells:  []any{r.name, cpu.String(), memory.String(), r.window.String()},
			Object: runtime.RawExtension{Object: r.object},
		})
	}
	return t
}
