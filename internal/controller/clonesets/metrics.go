package clonesets

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// Metrics are the controller's. A nil *Metrics counts nothing.
type Metrics struct {
	all []prometheus.Collector

	syncs    *prometheus.CounterVec
	duration prometheus.Histogram
	writes   *prometheus.CounterVec
	stale    *prometheus.CounterVec
	waits    prometheus.Histogram
	rollouts prometheus.Histogram
	pods     *prometheus.GaugeVec
	restarts prometheus.Counter

	corrected prometheus.Counter

	mu     sync.Mutex
	counts map[key]map[string]int // of pods by state, as they are in pods
}

const subsystem = "cloneset_controller"

// NewMetrics makes them; they are a prometheus.Collector.
func NewMetrics() *Metrics {
	m := &Metrics{counts: map[key]map[string]int{}}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: subsystem, Name: name, Help: help}
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: subsystem, Name: name, Help: help, Buckets: buckets})
	}
	m.syncs = prometheus.NewCounterVec(prometheus.CounterOpts(opts("syncs_total", "Syncs of CloneSets.")), []string{"result"})
	m.duration = histogram("sync_duration_seconds", "What a sync of a CloneSet took, in seconds.", prometheus.ExponentialBuckets(0.001, 2, 16))
	m.writes = prometheus.NewCounterVec(prometheus.CounterOpts(opts("writes_total", "Writes by resource, verb and result: success, a reason of the API, or NoAnswer.")), []string{"resource", "verb", "result"})
	m.stale = prometheus.NewCounterVec(prometheus.CounterOpts(opts("stale_sync_skips_total", "Syncs that waited because a cache did not show this controller's own last write.")), []string{"resource"})
	m.waits = histogram("freshness_wait_seconds", "How long a CloneSet waited until the caches showed this controller's own last writes, in seconds.", prometheus.ExponentialBuckets(0.001, 4, 10))
	m.rollouts = histogram("rollout_duration_seconds", "From the revision of a template to all pods being of it and available, in seconds.", prometheus.ExponentialBuckets(1, 2, 16))
	m.pods = prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("pods", "Active pods by the state of their life.")), []string{"state"})
	m.restarts = prometheus.NewCounter(prometheus.CounterOpts(opts("cache_restarts_total", "How often the caches were filled anew because the audit found that they had departed from the API.")))
	m.corrected = prometheus.NewCounter(prometheus.CounterOpts(opts("server_cache_errors_total", "Objects that the API server's watch cache showed wrong, and that are taken as a read by name showed them.")))
	m.all = []prometheus.Collector{m.syncs, m.duration, m.writes, m.stale, m.waits, m.rollouts, m.pods, m.restarts, m.corrected}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(to)
	}
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

func (m *Metrics) synced(took time.Duration, err error) {
	if m != nil {
		m.syncs.WithLabelValues(result(err)).Inc()
		m.duration.Observe(took.Seconds())
	}
}

func (m *Metrics) wrote(resource, verb string, err error) {
	if m != nil {
		m.writes.WithLabelValues(resource, verb, reconcile.Result(err)).Inc()
	}
}

// waiting is told that a sync was skipped because a cache is behind; waited how long that
// has been, if it is not any more.
func (m *Metrics) waiting(resource string) {
	if m != nil {
		m.stale.WithLabelValues(resource).Inc()
	}
}

func (m *Metrics) waited(d time.Duration) {
	if m != nil && d > 0 {
		m.waits.Observe(d.Seconds())
	}
}

func (m *Metrics) rolledOut(d time.Duration) {
	if m != nil && d > 0 {
		m.rollouts.Observe(d.Seconds())
	}
}

func (m *Metrics) restarted(corrected bool) {
	if m == nil {
		return
	}
	m.restarts.Inc()
	if corrected {
		m.corrected.Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods.Reset()
	clear(m.counts)
}

// states is told how many pods of a set are in which state of their life; nil for a set
// that is gone.
func (m *Metrics) states(k key, now map[string]int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for state, n := range m.counts[k] {
		m.pods.WithLabelValues(state).Sub(float64(n))
	}
	for state, n := range now {
		m.pods.WithLabelValues(state).Add(float64(n))
	}
	if now == nil {
		delete(m.counts, k)
	} else {
		m.counts[k] = now
	}
}
