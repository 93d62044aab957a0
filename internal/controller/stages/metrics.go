package stages

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// Metrics are the metrics of a StageEngine, a prometheus.Collector. They outlive the engine: another engine
// with the same Metrics (StageOptions.Metrics) continues to count. A nil *Metrics counts nothing.
type Metrics struct {
	engine atomic.Pointer[StageEngine]

	played        *prometheus.HistogramVec
	late          prometheus.Histogram
	writes        *prometheus.CounterVec
	errors        *prometheus.CounterVec
	doubts        prometheus.Counter
	renewals      *prometheus.CounterVec
	renewalsLate  prometheus.Histogram
	queue         *prometheus.Desc
	objects       *prometheus.Desc
	leases        *prometheus.Desc
	oldestRenewal *prometheus.Desc
}

// NewMetrics creates metrics without an engine.
func NewMetrics() *Metrics {
	return &Metrics{
		played: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rehearse_stage_play_duration_seconds", Help: "Time to carry out a stage, its requests included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15},
		}, []string{"stage"}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rehearse_stage_lateness_seconds", Help: "Time from a stage falling due to its being played.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .03, .04, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2, 5, 30, 120},
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rehearse_stage_writes_total", Help: "Requests that change something, by verb, resource and result: success, a reason of the API, or NoAnswer.",
		}, []string{"verb", "resource", "result"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rehearse_stage_errors_total", Help: "Stages that could not be carried out and will be tried again, by reason.",
		}, []string{"reason"}),
		doubts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rehearse_stage_cache_errors_total", Help: "Objects that the audit found to differ from the API, and that were read again.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rehearse_node_lease_renewals_total", Help: "Renewals of node leases, by result.",
		}, []string{"result"}),
		renewalsLate: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rehearse_node_lease_lateness_seconds", Help: "Time from a lease's renewal falling due to its success.",
			Buckets: []float64{.001, .005, .025, .1, .5, 1, 2.5, 5, 10, 20, 40},
		}),
		queue:         prometheus.NewDesc("rehearse_stage_queue", "Objects with a stage planned: due now, or waiting for their time.", []string{"state"}, nil),
		objects:       prometheus.NewDesc("rehearse_stage_objects", "Objects known, by kind.", []string{"kind"}, nil),
		leases:        prometheus.NewDesc("rehearse_node_leases", "Node leases that are kept.", nil, nil),
		oldestRenewal: prometheus.NewDesc("rehearse_node_lease_oldest_renewal_seconds", "Age of the renewal that was longest ago.", nil, nil),
	}
}

func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.played, m.late, m.writes, m.errors, m.doubts, m.renewals, m.renewalsLate}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.vectors() {
		c.Describe(out)
	}
	for _, d := range []*prometheus.Desc{m.queue, m.objects, m.leases, m.oldestRenewal} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.vectors() {
		c.Collect(out)
	}
	e := m.engine.Load()
	if e == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	now := e.options.Clock.Now()
	kinds, due, waiting := e.table.countObjects(now)
	for kind, n := range kinds {
		gauge(m.objects, float64(n), kind)
	}
	gauge(m.queue, float64(due), "due")
	gauge(m.queue, float64(waiting), "waiting")
	held, oldest := e.leases.lateness(now)
	gauge(m.leases, float64(held))
	gauge(m.oldestRenewal, oldest.Seconds())
}

// attach makes the metrics show the table of this engine.
func (m *Metrics) attach(e *StageEngine) {
	if m != nil {
		m.engine.Store(e)
	}
}

// carriedOut counts a stage that was run.
func (m *Metrics) carriedOut(stage string, took, late time.Duration) {
	if m != nil {
		m.played.WithLabelValues(stage).Observe(took.Seconds())
		m.late.Observe(max(late, 0).Seconds())
	}
}

// failed counts a stage that failed.
func (m *Metrics) failed(err error) {
	if m != nil && !errors.Is(err, context.Canceled) {
		m.errors.WithLabelValues(reconcile.Result(err)).Inc()
	}
}

// foundWrong counts an object that the audit found wrong.
func (m *Metrics) foundWrong() {
	if m != nil {
		m.doubts.Inc()
	}
}

// renewed counts a renewal of a lease.
func (m *Metrics) renewed(late time.Duration, err error) {
	switch {
	case m == nil || errors.Is(err, context.Canceled):
	default:
		m.renewals.WithLabelValues(reconcile.Result(err)).Inc()
		if err == nil {
			m.renewalsLate.Observe(late.Seconds())
		}
	}
}

// countObjects counts the objects of the table by kind, and those with a planned stage: due, or waiting.
func (t *table) countObjects(now time.Time) (kinds map[string]int, due, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kinds = map[string]int{}
	for key := range t.names {
		kinds[key.kind.String()]++
	}
	due = t.due.countDue(now)
	return kinds, due, t.due.len() - due
}

// countDue returns how many keys are due at now. In a heap, all keys below a key that is not due are not due
// either.
func (a *agenda[K]) countDue(now time.Time) int {
	var below func(i int) int
	below = func(i int) int {
		if i >= len(a.items.list) || a.items.list[i].due.After(now) {
			return 0
		}
		return 1 + below(2*i+1) + below(2*i+2)
	}
	return below(0)
}
