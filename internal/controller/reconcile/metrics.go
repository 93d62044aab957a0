package reconcile

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Collectors is a prometheus.Collector of several metrics with a common prefix.
type Collectors struct {
	Prefix string
	all    []prometheus.Collector
}

// Counter adds a counter.
func (c *Collectors) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: c.Prefix, Name: name, Help: help}, labels)
	c.all = append(c.all, v)
	return v
}

// Gauge adds a gauge.
func (c *Collectors) Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: c.Prefix, Name: name, Help: help}, labels)
	c.all = append(c.all, v)
	return v
}

// Histogram adds a histogram.
func (c *Collectors) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: c.Prefix, Name: name, Help: help, Buckets: buckets}, labels)
	c.all = append(c.all, v)
	return v
}

// Describe implements prometheus.Collector.
func (c *Collectors) Describe(to chan<- *prometheus.Desc) {
	for _, v := range c.all {
		v.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (c *Collectors) Collect(to chan<- prometheus.Metric) {
	for _, v := range c.all {
		v.Collect(to)
	}
}

// Metrics are the metrics that each controller of workloads has, with its own prefix.
type Metrics struct {
	Collectors
	stale    *prometheus.CounterVec
	waits    prometheus.Observer
	restarts prometheus.Counter
	wrong    prometheus.Counter
}

// NewMetrics returns the common metrics of the controller of a kind. staleLabels are the labels of
// stale_sync_skips_total.
func NewMetrics(prefix, kind string, staleLabels ...string) *Metrics {
	m := &Metrics{Collectors: Collectors{Prefix: prefix}}
	m.stale = m.Counter("stale_sync_skips_total", "Syncs that waited because a cache did not show this controller's own last write.", staleLabels...)
	m.waits = m.Histogram("freshness_wait_seconds", "How long a "+kind+" waited until the caches showed this controller's own last writes, in seconds.",
		prometheus.ExponentialBuckets(0.001, 4, 10)).WithLabelValues()
	m.restarts = m.Counter("cache_restarts_total", "Restarts of the caches because the audit found that they differ from the API.").WithLabelValues()
	m.wrong = m.Counter("server_cache_errors_total", "Objects that were wrong in the API server's watch cache, and are replaced by what a read by name returns.").WithLabelValues()
	return m
}

// StaleSync counts a sync that waits because a cache is behind. labels are the values of staleLabels.
func (m *Metrics) StaleSync(labels ...string) { m.stale.WithLabelValues(labels...).Inc() }

// Waited records how long an owner waited for the caches, if it did.
func (m *Metrics) Waited(d time.Duration) {
	if d > 0 {
		m.waits.Observe(d.Seconds())
	}
}

// Restarted counts a restart of the caches; corrected says that the API server's watch cache was wrong.
func (m *Metrics) Restarted(corrected bool) {
	m.restarts.Inc()
	if corrected {
		m.wrong.Inc()
	}
}

// SyncResult is the label "result" of metrics of syncs.
func SyncResult(err error) string {
	if err != nil {
		return "error"
	}
	return Success
}

// The label "result" of metrics of requests is Success, a reason of the API (metav1.StatusReason: Conflict,
// Forbidden...), NoAnswer for a request without an answer, or Other for an error that no request caused.
const (
	Success  = "success"
	NoAnswer = "NoAnswer"
	Other    = "Other"
)

// Result is the label "result" of a request that ended with err; nil is Success.
func Result(err error) string {
	var unreachable *url.Error
	var network net.Error
	if err == nil {
		return Success
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return string(metav1.StatusReasonTimeout)
	case errors.As(err, &unreachable), errors.As(err, &network):
		return NoAnswer
	}
	return Other
}

// ResultOf is the label "result" of an answer with a status code.
func ResultOf(code int) string {
	reason := metav1.StatusReasonInternalError
	switch code {
	case http.StatusBadRequest:
		reason = metav1.StatusReasonBadRequest
	case http.StatusUnauthorized:
		reason = metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		reason = metav1.StatusReasonForbidden
	case http.StatusNotFound:
		reason = metav1.StatusReasonNotFound
	case http.StatusConflict:
		reason = metav1.StatusReasonConflict
	case http.StatusUnprocessableEntity:
		reason = metav1.StatusReasonInvalid
	case http.StatusTooManyRequests:
		reason = metav1.StatusReasonTooManyRequests
	case http.StatusServiceUnavailable:
		reason = metav1.StatusReasonServiceUnavailable
	case http.StatusGatewayTimeout:
		reason = metav1.StatusReasonTimeout
	default:
		if code < 300 {
			return Success
		}
	}
	return string(reason)
}
