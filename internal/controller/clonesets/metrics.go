package clonesets

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// Metrics are the metrics of the controller.
type Metrics struct {
	*reconcile.Metrics

	syncs    *prometheus.CounterVec
	duration prometheus.Observer
	writes   *prometheus.CounterVec
	rollouts prometheus.Observer
	pods     *prometheus.GaugeVec

	mu     sync.Mutex
	counts map[key]map[string]int // pods of each CloneSet by state; the gauge pods is their sum
}

// NewMetrics creates the metrics, which are a prometheus.Collector.
func NewMetrics() *Metrics {
	m := &Metrics{Metrics: reconcile.NewMetrics("cloneset_controller", v1alpha1.Kind, "resource"), counts: map[key]map[string]int{}}
	m.syncs = m.Counter("syncs_total", "Syncs of CloneSets.", "result")
	m.duration = m.Histogram("sync_duration_seconds", "Duration of a sync of a CloneSet, in seconds.", prometheus.ExponentialBuckets(0.001, 2, 16)).WithLabelValues()
	m.writes = m.Counter("writes_total", "Writes by resource, verb and result: success, a reason of the API, or NoAnswer.", "resource", "verb", "result")
	m.rollouts = m.Histogram("rollout_duration_seconds", "Time from the creation of a template's revision until all pods have it and are available, in seconds.",
		prometheus.ExponentialBuckets(1, 2, 16)).WithLabelValues()
	m.pods = m.Gauge("pods", "Active pods by lifecycle state.", "state")
	return m
}

// synced counts a sync.
func (m *Metrics) synced(took time.Duration, err error) {
	m.syncs.WithLabelValues(reconcile.SyncResult(err)).Inc()
	m.duration.Observe(took.Seconds())
}

// countWrite counts a request that changes something.
func (m *Metrics) countWrite(resource, verb string, err error) {
	m.writes.WithLabelValues(resource, verb, reconcile.Result(err)).Inc()
}

// rolledOut records the duration of a rollout, if one has finished.
func (m *Metrics) rolledOut(d time.Duration) {
	if d > 0 {
		m.rollouts.Observe(d.Seconds())
	}
}

// restarted counts a restart of the caches, and resets the gauge of pods.
func (m *Metrics) restarted(corrected bool) {
	m.Restarted(corrected)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods.Reset()
	clear(m.counts)
}

// setPods records the pods of a CloneSet by lifecycle state; nil if it does not exist any more.
func (m *Metrics) setPods(k key, states map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for state, n := range m.counts[k] {
		m.pods.WithLabelValues(state).Sub(float64(n))
	}
	for state, n := range states {
		m.pods.WithLabelValues(state).Add(float64(n))
	}
	if states == nil {
		delete(m.counts, k)
	} else {
		m.counts[k] = states
	}
}
