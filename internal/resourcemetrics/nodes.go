package resourcemetrics

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics"

	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// nodeStorage serves the metrics of nodes: the sums of their pods.
type nodeStorage struct{ source *Source }

// New implements rest.Storage.
func (nodeStorage) New() runtime.Object { return &metrics.NodeMetrics{} }

// Destroy implements rest.Storage.
func (nodeStorage) Destroy() {}

// NewList implements rest.Lister.
func (nodeStorage) NewList() runtime.Object { return &metrics.NodeMetricsList{} }

// NamespaceScoped implements rest.Scoper.
func (nodeStorage) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider. The resource has none, because "node" is that of the core group.
func (nodeStorage) GetSingularName() string { return "" }

// Get implements rest.Getter.
func (n nodeStorage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	list, err := n.list(ctx, &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name)})
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, apierrors.NewNotFound(metrics.Resource("nodes"), name)
	}
	return &list.Items[0], nil
}

// List implements rest.Lister.
func (n nodeStorage) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	return n.list(ctx, o)
}

func (n nodeStorage) list(ctx context.Context, o *internalversion.ListOptions) (*metrics.NodeMetricsList, error) {
	r, err := n.source.begin(ctx, metav1.NamespaceAll, "")
	if err != nil {
		return nil, err
	}
	// The expressions of a pod read no other node than their own.
	if err := cmp.Or(r.readNodes(selectors(o)), r.readPodsByNode()); err != nil {
		return nil, err
	}
	n.source.mu.Lock()
	defer n.source.mu.Unlock()
	plan, missing := n.source.plan(r), missing{}
	list := &metrics.NodeMetricsList{Items: []metrics.NodeMetrics{}}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		node := r.nodes[name]
		list.Items = append(list.Items, metrics.NodeMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels, CreationTimestamp: metav1.NewTime(r.now)},
			Timestamp:  metav1.NewTime(r.now),
			Window:     metav1.Duration{Duration: window},
			Usage:      nodeUsage(plan, r.podsByNode[name], &missing),
		})
	}
	if r.err != nil {
		return nil, r.err
	}
	missing.warn(ctx)
	return list, nil
}

// selectors returns the selectors of a request.
func selectors(o *internalversion.ListOptions) (out metav1.ListOptions) {
	if o != nil && o.LabelSelector != nil {
		out.LabelSelector = o.LabelSelector.String()
	}
	if o != nil && o.FieldSelector != nil {
		out.FieldSelector = o.FieldSelector.String()
	}
	return out
}

// nodeUsage adds the usage of pods. A pod whose usage has an error counts as 0.
func nodeUsage(plan *usage.Plan, pods []*corev1.Pod, missing *missing) corev1.ResourceList {
	sum := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(0, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(0, resource.BinarySI),
	}
	for _, pod := range pods {
		containers, err := plan.Pod(pod)
		if err != nil {
			missing.add(pod, err)
		}
		for _, c := range containers {
			add(sum, c.Usage)
		}
	}
	return sum
}

// ConvertToTable implements rest.TableConvertor.
func (nodeStorage) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	var items []metrics.NodeMetrics
	switch o := object.(type) {
	case *metrics.NodeMetrics:
		items = []metrics.NodeMetrics{*o}
	case *metrics.NodeMetricsList:
		items = o.Items
	}
	return table(items, func(m *metrics.NodeMetrics) row { return row{m, m.Name, m.Usage, m.Window.Duration} }), nil
}
