package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Metric defines metrics of simulated nodes, in the format of Prometheus, and the path that serves them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metrics,scope=Cluster
type Metric struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the path and the metrics.
	Spec MetricSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// MetricList is a list of Metric objects.
//
// +kubebuilder:object:root=true
type MetricList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Metric `json:"items"`
}

// MetricSpec contains the path and the metrics of a Metric object.
type MetricSpec struct {
	// Path begins with /metrics. {nodeName} stands for the name of the node.
	//
	// +kubebuilder:validation:Pattern=`^/metrics(/.*)?$`
	Path string `json:"path"`
	// Metrics are the metrics.
	Metrics []MetricConfig `json:"metrics"`
}

// MetricConfig defines one metric.
type MetricConfig struct {
	// Name is the name in the format of Prometheus.
	Name string `json:"name"`
	// Help describes the metric.
	Help string `json:"help,omitempty"`
	// Kind is counter, gauge or histogram.
	Kind MetricType `json:"kind"`
	// Labels are the labels of each series.
	Labels []MetricLabel `json:"labels,omitempty"`
	// Value is the CEL expression of a counter or a gauge.
	Value string `json:"value,omitempty"`
	// Buckets are the buckets of a histogram.
	Buckets []MetricBucket `json:"buckets,omitempty"`
	// Dimension is what each series describes: node, pod or container. The default is node.
	Dimension MetricDimension `json:"dimension,omitempty"`
}

// MetricType is the kind of a metric.
//
// +kubebuilder:validation:Enum=counter;gauge;histogram
type MetricType string

// The kinds of metrics.
const (
	// MetricCounter is a value that rises, except when it starts again at 0.
	MetricCounter MetricType = "counter"
	// MetricGauge is a value that rises and falls.
	MetricGauge MetricType = "gauge"
	// MetricHistogram counts observations by size.
	MetricHistogram MetricType = "histogram"
)

// MetricDimension is what each series of a metric describes.
//
// +kubebuilder:validation:Enum=node;pod;container
type MetricDimension string

// The dimensions of metrics.
const (
	// MetricOfNode is one series for the node.
	MetricOfNode MetricDimension = "node"
	// MetricOfPod is one series for each pod of the node.
	MetricOfPod MetricDimension = "pod"
	// MetricOfContainer is one series for each container in spec.containers of each pod of the node.
	MetricOfContainer MetricDimension = "container"
)

// MetricLabel defines one label of the series of a metric.
type MetricLabel struct {
	// Name is the name of the label.
	Name string `json:"name"`
	// Value is a CEL expression that returns a string.
	Value string `json:"value"`
}

// MetricBucket defines one bucket of a histogram.
type MetricBucket struct {
	// Le is the upper bound of the bucket, which the bucket includes.
	//
	// +kubebuilder:validation:Minimum=0
	Le float64 `json:"le"`
	// Value is the CEL expression of the number of observations in this bucket alone.
	Value string `json:"value"`
	// Hidden leaves the bucket out of the response. Its observations count in the buckets above it.
	Hidden bool `json:"hidden,omitempty"`
}
