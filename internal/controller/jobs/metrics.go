package jobs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// Metrics are the controller's. Those that upstream has bear upstream's names, labels
// and meaning (pkg/controller/job/metrics), so that dashboards and alerts go on.
// A nil *Metrics counts nothing.
type Metrics struct {
	all []prometheus.Collector

	syncs     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	finished  *prometheus.CounterVec
	pods      *prometheus.CounterVec
	handled   *prometheus.CounterVec
	indexes   *prometheus.CounterVec
	creations *prometheus.CounterVec
	externals *prometheus.CounterVec
	stale     *prometheus.CounterVec
	tracked   *prometheus.CounterVec
	waits     prometheus.Histogram
	beyond    prometheus.Counter
	restarts  prometheus.Counter
	corrected prometheus.Counter
}

// NewMetrics makes them; they are a prometheus.Collector.
func NewMetrics() *Metrics {
	m := &Metrics{}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: subsystem, Name: name, Help: help}, labels)
		m.all = append(m.all, v)
		return v
	}
	m.syncs = counter("job_syncs_total", "Syncs of Jobs.", "completion_mode", "result", "action")
	m.finished = counter("jobs_finished_total", "Jobs that ended.", "completion_mode", "result", "reason")
	m.pods = counter("job_pods_finished_total", "Pods that were counted.", "completion_mode", "result")
	m.handled = counter("pod_failures_handled_by_failure_policy_total", "Failures by the action of the pod failure policy.", "action")
	m.indexes = counter("job_finished_indexes_total", "Indexes that succeeded or failed.", "status", "backoffLimit")
	m.creations = counter("job_pods_creation_total", "Pods that were made, or were to be.", "reason", "status")
	m.externals = counter("jobs_by_external_controller_total", "Jobs that name another controller.", "controller_name")
	m.tracked = counter("terminated_pods_tracking_finalizer_total", "Finished pods that began (add) or ceased (delete) to be held by the finalizer.", "event")
	m.stale = counter("stale_sync_skips_total", "Syncs that waited because a cache did not show this controller's own last write.", "group", "resource")
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: subsystem, Name: "job_sync_duration_seconds", Help: "What a sync of a Job took, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
	}, []string{"completion_mode", "result", "action"})
	m.waits = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: subsystem, Name: "freshness_wait_seconds", Help: "How long a Job waited until the caches showed this controller's own last writes, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
	})
	m.beyond = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: subsystem, Name: "pods_beyond_plan_total",
		Help: "Active pods beyond what their Job asks for, although the Job has not been changed. It must stay 0.",
	})
	m.restarts = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: subsystem, Name: "cache_restarts_total", Help: "How often the caches were filled anew because the audit found that they had departed from the API.",
	})
	m.corrected = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: subsystem, Name: "server_cache_errors_total", Help: "Objects that the API server's watch cache showed wrong, and that are taken as a read by name showed them.",
	})
	m.all = append(m.all, m.duration, m.waits, m.beyond, m.restarts, m.corrected)
	return m
}

const subsystem = "job_controller"

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

func mode(j *batchv1.Job) string {
	return string(ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion))
}

// outcome is what a sync was.
type outcome struct {
	wake         time.Duration
	mode, action string // labels; no mode for what was no sync of a Job
}

// What a sync did, as upstream calls it.
const (
	reconciling = "reconciling"
	tracking    = "tracking"
	podsCreated = "pods_created"
	podsDeleted = "pods_deleted"
)

func actionOf(d *job.Decision) string {
	switch {
	case d.Tally.Created > 0:
		return podsCreated
	case d.Tally.Removed > 0:
		return podsDeleted
	case d.Status != nil || d.Tally.Released > 0:
		return tracking
	}
	return reconciling
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

func (m *Metrics) synced(o outcome, took time.Duration, err error) {
	if m == nil || o.mode == "" {
		return
	}
	m.syncs.WithLabelValues(o.mode, result(err), o.action).Inc()
	m.duration.WithLabelValues(o.mode, result(err), o.action).Observe(took.Seconds())
}

// counted is told of a status that was written.
func (m *Metrics) counted(j *batchv1.Job, d *job.Decision) {
	if m == nil {
		return
	}
	m.pods.WithLabelValues(mode(j), "succeeded").Add(float64(max(0, d.Status.Succeeded-j.Status.Succeeded)))
	m.pods.WithLabelValues(mode(j), "failed").Add(float64(max(0, d.Status.Failed-j.Status.Failed)))
	if mode(j) == string(batchv1.IndexedCompletion) {
		limit := "global"
		if j.Spec.BackoffLimitPerIndex != nil {
			limit = "perIndex"
		}
		m.indexes.WithLabelValues("succeeded", limit).Add(float64(max(0, d.Status.Succeeded-j.Status.Succeeded)))
		m.indexes.WithLabelValues("failed", limit).Add(float64(max(0, indexes(j, d.Status.FailedIndexes)-indexes(j, j.Status.FailedIndexes))))
	}
	switch d.Tally.Ended {
	case batchv1.JobComplete:
		m.finished.WithLabelValues(mode(j), "succeeded", d.Tally.Why).Inc()
	case batchv1.JobFailed:
		m.finished.WithLabelValues(mode(j), "failed", d.Tally.Why).Inc()
	}
}

func indexes(j *batchv1.Job, text *string) int {
	set, _ := job.ParseIndexes(ptr.Deref(text, ""), int(ptr.Deref(j.Spec.Completions, 0)))
	return set.Len()
}

// handledBy is told what the pod failure policy did.
func (m *Metrics) handledBy(actions map[batchv1.PodFailurePolicyAction]int) {
	if m == nil {
		return
	}
	for action, n := range actions {
		m.handled.WithLabelValues(string(action)).Add(float64(n))
	}
}

// creationReason is upstream's label for why pods are made.
func creationReason(j *batchv1.Job, d *job.Decision) string {
	switch {
	case !d.Tally.Replaces:
		return "new"
	case ptr.Deref(j.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed && j.Status.Failed > 0:
		return "recreate_failed"
	}
	return "recreate_terminating_or_failed"
}

func (m *Metrics) created(reason string, err error) {
	if m == nil {
		return
	}
	status := "succeeded"
	if err != nil {
		status = "failed"
	}
	m.creations.WithLabelValues(reason, status).Inc()
}

func (m *Metrics) external(j *batchv1.Job) {
	if m != nil && j.Spec.ManagedBy != nil {
		m.externals.WithLabelValues(*j.Spec.ManagedBy).Inc()
	}
}

// waiting is told that a sync was skipped because a cache is behind; waited how long that
// has been, if it is not any more.
func (m *Metrics) waiting(group, resource string) {
	if m != nil {
		m.stale.WithLabelValues(group, resource).Inc()
	}
}

func (m *Metrics) waited(d time.Duration) {
	if m != nil && d > 0 {
		m.waits.Observe(d.Seconds())
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
}

func (m *Metrics) podsBeyond(n int) {
	if m != nil {
		m.beyond.Add(float64(n))
	}
}

// finalizer is told when a pod that has finished begins or ceases to be held.
func (m *Metrics) finalizer(heldBefore, heldNow bool) {
	switch {
	case m == nil || heldBefore == heldNow:
	case heldNow:
		m.tracked.WithLabelValues("add").Inc()
	default:
		m.tracked.WithLabelValues("delete").Inc()
	}
}
