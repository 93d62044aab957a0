package usage

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// MetricObject is a Metric object.
type MetricObject struct {
	// Object is printed in errors: the kind and name of the object.
	Object  fmt.Stringer
	Metrics []v1alpha1.MetricConfig
}

// Metrics computes the metrics of a node. pods are the pods of the node in the order of their series. The families are sorted by name; the last
// one, ErrorsMetric, counts the errors.
//
// An error is the reason why one series is missing: an expression that fails, a wrong result, or labels that another series of the
// metric has. All other series are in the result. A metric whose definition is invalid is one error.
func (p *Plan) Metrics(node *corev1.Node, pods []*corev1.Pod, objects []MetricObject) ([]*dto.MetricFamily, []error) {
	e := &exposition{plan: p, families: map[string]*metricFamily{}}
	for _, o := range objects {
		for i := range o.Metrics {
			m := &o.Metrics[i]
			at := field.NewPath("spec", "metrics").Index(i)
			if err := p.compiler.checkMetric(at, m); err != nil {
				e.errors = append(e.errors, fmt.Errorf("%s: %w", o.Object, oneLine(err)))
				continue
			}
			e.metric(o.Object, m, node, pods)
		}
	}
	out := make([]*dto.MetricFamily, 0, len(e.families)+1)
	for _, name := range slices.Sorted(maps.Keys(e.families)) {
		if f := e.families[name]; len(f.Metric) > 0 {
			out = append(out, &f.MetricFamily)
		}
	}
	return append(out, &dto.MetricFamily{
		Name: ptr.To(ErrorsMetric), Type: dto.MetricType_GAUGE.Enum(),
		Help:   ptr.To("Number of series that this response does not contain, because an expression failed or the definition is invalid"),
		Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: ptr.To(float64(len(e.errors)))}}},
	}), e.errors
}

// exposition is the result of Metrics.
type exposition struct {
	plan     *Plan
	families map[string]*metricFamily
	errors   []error
}

type metricFamily struct {
	dto.MetricFamily
	labels map[string]bool // of its series
}

// protoTypes are the types of families.
var protoTypes = map[v1alpha1.MetricType]dto.MetricType{
	v1alpha1.MetricCounter: dto.MetricType_COUNTER, v1alpha1.MetricGauge: dto.MetricType_GAUGE, v1alpha1.MetricHistogram: dto.MetricType_HISTOGRAM,
}

// metric adds the series of one metric.
func (e *exposition) metric(object fmt.Stringer, m *v1alpha1.MetricConfig, node *corev1.Node, pods []*corev1.Pod) {
	f := e.families[m.Name]
	if f == nil {
		f = &metricFamily{labels: map[string]bool{}}
		f.Name, f.Type = ptr.To(m.Name), protoTypes[m.Kind].Enum()
		if help := strings.TrimSpace(m.Help); help != "" {
			f.Help = &help
		}
		e.families[m.Name] = f
	}
	if f.GetType() != protoTypes[m.Kind] {
		e.errors = append(e.errors, fmt.Errorf("%s: metric %s: kind %s: another object defines the metric as a %s", object, m.Name, m.Kind, strings.ToLower(f.GetType().String())))
		return
	}
	add := func(pod *corev1.Pod, container *corev1.Container) {
		in := &metricInput{plan: e.plan, node: node, pod: pod, container: container}
		if err := f.add(in, m); err != nil {
			e.errors = append(e.errors, fmt.Errorf("%s: metric %s%s: %w", object, m.Name, in.describe(), oneLine(err)))
		}
	}
	if dimensionOf(m) == v1alpha1.MetricOfNode {
		add(nil, nil)
		return
	}
	for _, pod := range pods {
		if m.Dimension == v1alpha1.MetricOfPod {
			add(pod, nil)
			continue
		}
		for i := range pod.Spec.Containers {
			add(pod, &pod.Spec.Containers[i])
		}
	}
}

// add adds one series.
func (f *metricFamily) add(in *metricInput, m *v1alpha1.MetricConfig) error {
	series, labels := &dto.Metric{}, make([]string, 0, len(m.Labels))
	for _, l := range m.Labels {
		v, err := in.evaluate(m, l.Value, "label "+l.Name)
		if err != nil {
			return err
		}
		text, ok := v.(types.String)
		if !ok {
			return fmt.Errorf("label %s: returns a %s; want a string", l.Name, v.Type().TypeName())
		}
		series.Label = append(series.Label, &dto.LabelPair{Name: ptr.To(l.Name), Value: ptr.To(string(text))})
		labels = append(labels, fmt.Sprintf("%s=%q", l.Name, string(text)))
	}
	slices.SortFunc(series.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	slices.Sort(labels)
	key := strings.Join(labels, ",")
	if f.labels[key] {
		return fmt.Errorf("another series has the labels {%s}", key)
	}
	if m.Kind == v1alpha1.MetricHistogram {
		h, err := histogram(in, m)
		if err != nil {
			return err
		}
		series.Histogram = h
	} else {
		value, err := in.number(m, m.Value, "value")
		if err != nil {
			return err
		}
		if m.Kind == v1alpha1.MetricCounter {
			series.Counter = &dto.Counter{Value: &value}
		} else {
			series.Gauge = &dto.Gauge{Value: &value}
		}
	}
	f.labels[key] = true
	f.Metric = append(f.Metric, series)
	return nil
}

// maxCount is the largest count of a bucket. float64 represents all integers up to it.
const maxCount = 1 << 53

// histogram computes cumulative buckets from the counts of the single buckets. A hidden bucket counts in those above it.
func histogram(in *metricInput, m *v1alpha1.MetricConfig) (*dto.Histogram, error) {
	h := &dto.Histogram{}
	count, sum := uint64(0), 0.0
	for i, b := range m.Buckets {
		n, err := in.number(m, b.Value, fmt.Sprintf("bucket %d", i))
		if err != nil {
			return nil, err
		}
		if math.IsNaN(n) || n < 0 || n > maxCount {
			return nil, fmt.Errorf("bucket with le %v: returns %v; want a count of at least 0", b.Le, n)
		}
		n = math.Floor(n)
		count += uint64(n)
		sum += b.Le * n
		if !b.Hidden {
			h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: ptr.To(b.Le), CumulativeCount: ptr.To(count)})
		}
	}
	h.SampleCount, h.SampleSum = &count, &sum
	return h, nil
}

// metricInput resolves the variables of the expressions of one series.
type metricInput struct {
	plan      *Plan
	node      *corev1.Node
	pod       *corev1.Pod
	container *corev1.Container
	use       string // what the expression defines, for Rand
}

// describe names the object of a series.
func (in *metricInput) describe() string {
	switch {
	case in.container != nil:
		return fmt.Sprintf(" of container %q of pod %s/%s", in.container.Name, in.pod.Namespace, in.pod.Name)
	case in.pod != nil:
		return fmt.Sprintf(" of pod %s/%s", in.pod.Namespace, in.pod.Name)
	}
	return ""
}

// evaluate evaluates an expression that checkMetric has accepted.
func (in *metricInput) evaluate(m *v1alpha1.MetricConfig, text, what string) (v ref.Val, err error) {
	defer func() { // an overload that panics on unexpected values must not crash the process
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: expression %v", what, r)
		}
	}()
	in.use = m.Name + "/" + what
	program := in.plan.compiler.compile(source{dimensionOf(m), text})
	if program.err != nil {
		return nil, program.err
	}
	out, _, err := program.Eval(in)
	if err != nil {
		return nil, fmt.Errorf("%s: expression %w", what, err)
	}
	return out, nil
}

// number evaluates the expression of a number.
func (in *metricInput) number(m *v1alpha1.MetricConfig, text, what string) (float64, error) {
	v, err := in.evaluate(m, text, what)
	if err != nil {
		return 0, err
	}
	q, number, ok := expr.CELQuantity(v)
	if !ok {
		return 0, fmt.Errorf("%s: returns a %s; want a number", what, v.Type().TypeName())
	}
	if q != nil {
		number = q.AsApproximateFloat64()
	}
	return number, nil
}

// Parent implements interpreter.Activation.
func (in *metricInput) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation.
func (in *metricInput) ResolveName(name string) (any, bool) {
	switch name {
	case celNode:
		return expr.CELValue(in.node), true
	case celPod:
		return expr.CELValue(in.pod), true
	case celContainer:
		return expr.CELValue(in.container), true
	}
	return in.plan.resolveName(name, in.draw)
}

// draw returns the random number of one expression of a series at one moment.
func (in *metricInput) draw() float64 {
	uid, key := apitypes.UID(in.node.UID), in.use
	if in.pod != nil {
		uid = in.pod.UID
	}
	if in.container != nil {
		key = in.container.Name + "/" + key
	}
	return expr.Draw(0, uid, key, uint64(in.plan.view.Now.UnixNano()), expr.ForExpression)
}
