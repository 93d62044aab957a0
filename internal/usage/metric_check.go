package usage

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// NodeNameInPath stands for the name of the node in the path of a Metric.
const NodeNameInPath = "{nodeName}"

// ErrorsMetric is the name of the metric that counts the series which a response does not contain.
const ErrorsMetric = "rehearse_metric_errors"

// resourceMetricsPath is the path of a kubelet that needs no Metric.
const resourceMetricsPath = "/metrics/resource"

// The names that Prometheus accepts. Names that begin with __ are reserved for labels of Prometheus itself.
var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

var (
	metricTypes = []v1alpha1.MetricType{v1alpha1.MetricCounter, v1alpha1.MetricGauge, v1alpha1.MetricHistogram}
	dimensions  = []v1alpha1.MetricDimension{v1alpha1.MetricOfNode, v1alpha1.MetricOfPod, v1alpha1.MetricOfContainer}
)

// CheckMetrics returns the first error of the spec of a Metric object.
func CheckMetrics(at *field.Path, spec *v1alpha1.MetricSpec) *field.Error {
	if err := checkPath(at.Child("path"), spec.Path); err != nil {
		return err
	}
	if len(spec.Metrics) == 0 {
		return field.Required(at.Child("metrics"), "the object has no metric")
	}
	c := &Compiler{}
	seen := map[string]v1alpha1.MetricType{}
	for i := range spec.Metrics {
		m, at := &spec.Metrics[i], at.Child("metrics").Index(i)
		if err := c.checkMetric(at, m); err != nil {
			return err
		}
		if kind, ok := seen[m.Name]; ok && kind != m.Kind {
			return field.Invalid(at.Child("kind"), string(m.Kind), fmt.Sprintf("another metric of the object has the name %s and the kind %s", m.Name, kind))
		}
		seen[m.Name] = m.Kind
	}
	for i, m := range spec.Metrics {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if histogram, ok := strings.CutSuffix(m.Name, suffix); ok && seen[histogram] == v1alpha1.MetricHistogram {
				return field.Invalid(at.Child("metrics").Index(i).Child("name"), m.Name, "is a series of the histogram "+histogram)
			}
		}
	}
	return nil
}

func checkPath(at *field.Path, p string) *field.Error {
	switch variable := strings.NewReplacer(NodeNameInPath, "").Replace(p); {
	case p == "":
		return field.Required(at, "name a path that begins with /metrics")
	case p != "/metrics" && !strings.HasPrefix(p, "/metrics/"):
		return field.Invalid(at, p, "must be /metrics or begin with /metrics/")
	case path.Clean(p) != p:
		return field.Invalid(at, p, "clients request this path as "+path.Clean(p))
	case p == resourceMetricsPath:
		return field.Invalid(at, p, "each node serves its own metrics at this path")
	case strings.ContainsAny(variable, "{}"):
		return field.Invalid(at, p, "{nodeName} is the only variable")
	case strings.ContainsAny(variable, "?#% \t\r\n"):
		return field.Invalid(at, p, "must not contain ?, #, % or white space")
	}
	return nil
}

// checkMetric returns the first error of one metric.
func (c *Compiler) checkMetric(at *field.Path, m *v1alpha1.MetricConfig) *field.Error {
	switch {
	case !metricName.MatchString(m.Name):
		return field.Invalid(at.Child("name"), m.Name, "must match "+metricName.String())
	case m.Name == ErrorsMetric:
		return field.Invalid(at.Child("name"), m.Name, "is the name of a metric of rehearse")
	case !slices.Contains(metricTypes, m.Kind):
		return field.NotSupported(at.Child("kind"), m.Kind, metricTypes)
	case m.Dimension != "" && !slices.Contains(dimensions, m.Dimension):
		return field.NotSupported(at.Child("dimension"), m.Dimension, dimensions)
	}
	if err := c.checkLabels(at.Child("labels"), m); err != nil {
		return err
	}
	if m.Kind == v1alpha1.MetricHistogram {
		if m.Value != "" {
			return field.Forbidden(at.Child("value"), "a histogram has buckets")
		}
		return c.checkBuckets(at.Child("buckets"), m)
	}
	if len(m.Buckets) > 0 {
		return field.Forbidden(at.Child("buckets"), fmt.Sprintf("a %s has a value", m.Kind))
	}
	return c.checkExpression(at.Child("value"), dimensionOf(m), m.Value, numbers)
}

func (c *Compiler) checkLabels(at *field.Path, m *v1alpha1.MetricConfig) *field.Error {
	for i, l := range m.Labels {
		name := at.Index(i).Child("name")
		switch {
		case !labelName.MatchString(l.Name):
			return field.Invalid(name, l.Name, "must match "+labelName.String())
		case strings.HasPrefix(l.Name, "__"):
			return field.Invalid(name, l.Name, "names that begin with __ are reserved")
		case l.Name == "le" && m.Kind == v1alpha1.MetricHistogram:
			return field.Invalid(name, l.Name, "is the label of the buckets")
		case slices.ContainsFunc(m.Labels[:i], func(other v1alpha1.MetricLabel) bool { return other.Name == l.Name }):
			return field.Duplicate(name, l.Name)
		}
		if err := c.checkExpression(at.Index(i).Child("value"), dimensionOf(m), l.Value, texts); err != nil {
			return err
		}
	}
	return nil
}

func (c *Compiler) checkBuckets(at *field.Path, m *v1alpha1.MetricConfig) *field.Error {
	if len(m.Buckets) == 0 {
		return field.Required(at, "a histogram has buckets")
	}
	for i, b := range m.Buckets {
		le := at.Index(i).Child("le")
		switch {
		case math.IsNaN(b.Le) || math.IsInf(b.Le, 0) || b.Le < 0:
			return field.Invalid(le, b.Le, "must be a number of at least 0")
		case i > 0 && b.Le <= m.Buckets[i-1].Le:
			return field.Invalid(le, b.Le, "must be greater than that of the previous bucket")
		}
		if err := c.checkExpression(at.Index(i).Child("value"), dimensionOf(m), b.Value, numbers); err != nil {
			return err
		}
	}
	return nil
}

// The types that an expression may return.
var (
	texts   = []*cel.Type{cel.StringType}
	numbers = []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType, cel.DurationType}
)

// checkExpression compiles an expression. A result whose type is known only at the evaluation passes.
func (c *Compiler) checkExpression(at *field.Path, dimension v1alpha1.MetricDimension, text string, results []*cel.Type) *field.Error {
	if text == "" {
		return field.Required(at, "write a CEL expression")
	}
	p := c.compile(source{dimension, text})
	if p.err != nil {
		reason := oneLine(p.err).Error()
		for _, name := range variables[v1alpha1.MetricOfContainer] {
			if strings.Contains(reason, "undeclared reference to '"+name+"'") {
				reason = fmt.Sprintf("a metric of dimension %s cannot read %s", dimension, name)
			}
		}
		return field.Invalid(at, text, reason)
	}
	if p.result.Kind() == types.DynKind || slices.ContainsFunc(results, p.result.IsExactType) {
		return nil
	}
	want := "a number"
	if slices.Contains(results, cel.StringType) {
		want = "a string"
	}
	return field.Invalid(at, text, fmt.Sprintf("returns a %s; want %s", p.result, want))
}

// dimensionOf returns the dimension of a metric.
func dimensionOf(m *v1alpha1.MetricConfig) v1alpha1.MetricDimension {
	if m.Dimension == "" {
		return v1alpha1.MetricOfNode
	}
	return m.Dimension
}
