package jobs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// Metrics are the metrics of the controller. Those that upstream's controller has too have the same names,
// labels and meaning (pkg/controller/job/metrics), so that dashboards and alerts continue to work.
type Metrics struct {
	*reconcile.Metrics

	syncs     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	finished  *prometheus.CounterVec
	pods      *prometheus.CounterVec
	handled   *prometheus.CounterVec
	indexes   *prometheus.CounterVec
	creations *prometheus.CounterVec
	externals *prometheus.CounterVec
	tracked   *prometheus.CounterVec
	surplus   prometheus.Counter
}

// NewMetrics creates the metrics, which are a prometheus.Collector.
func NewMetrics() *Metrics {
	m := &Metrics{Metrics: reconcile.NewMetrics("job_controller", kind, "group", "resource")}
	m.syncs = m.Counter("job_syncs_total", "Syncs of Jobs.", "completion_mode", "result", "action")
	m.duration = m.Histogram("job_sync_duration_seconds", "Duration of a sync of a Job, in seconds.", prometheus.ExponentialBuckets(0.004, 2, 15), "completion_mode", "result", "action")
	m.finished = m.Counter("jobs_finished_total", "Jobs that finished.", "completion_mode", "result", "reason")
	m.pods = m.Counter("job_pods_finished_total", "Finished pods that were counted.", "completion_mode", "result")
	m.handled = m.Counter("pod_failures_handled_by_failure_policy_total", "Failures by the action of the pod failure policy.", "action")
	m.indexes = m.Counter("job_finished_indexes_total", "Indexes that succeeded or failed.", "status", "backoffLimit")
	m.creations = m.Counter("job_pods_creation_total", "Requests to create a pod.", "reason", "status")
	m.externals = m.Counter("jobs_by_external_controller_total", "Jobs that name another controller.", "controller_name")
	m.tracked = m.Counter("terminated_pods_tracking_finalizer_total", "Finished pods that got (add) or lost (delete) the tracking finalizer.", "event")
	m.surplus = m.Counter("pods_beyond_plan_total", "Active pods beyond what their Job requires, although the Job has not been changed. Must stay 0.").WithLabelValues()
	return m
}

func mode(j *batchv1.Job) string {
	return string(ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion))
}

// outcome is the result of a sync.
type outcome struct {
	wake         time.Duration
	mode, action string // metric labels; no mode if it was no sync of a Job
}

// The label "action" of a sync, with upstream's values.
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

// synced counts a sync.
func (m *Metrics) synced(o outcome, took time.Duration, err error) {
	if o.mode == "" {
		return
	}
	m.syncs.WithLabelValues(o.mode, reconcile.SyncResult(err), o.action).Inc()
	m.duration.WithLabelValues(o.mode, reconcile.SyncResult(err), o.action).Observe(took.Seconds())
}

// statusWritten counts the pods that a status update has counted, and the end of the Job.
func (m *Metrics) statusWritten(j *batchv1.Job, d *job.Decision) {
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

// failuresHandled counts pod failures by the action of the pod failure policy.
func (m *Metrics) failuresHandled(actions map[batchv1.PodFailurePolicyAction]int) {
	for action, n := range actions {
		m.handled.WithLabelValues(string(action)).Add(float64(n))
	}
}

// creationReason is upstream's label for why pods are created.
func creationReason(j *batchv1.Job, d *job.Decision) string {
	switch {
	case !d.Tally.Replaces:
		return "new"
	case ptr.Deref(j.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed && j.Status.Failed > 0:
		return "recreate_failed"
	}
	return "recreate_terminating_or_failed"
}

// podCreation counts a request to create a pod.
func (m *Metrics) podCreation(reason string, created bool) {
	status := "failed"
	if created {
		status = "succeeded"
	}
	m.creations.WithLabelValues(reason, status).Inc()
}

// external counts a Job that names another controller.
func (m *Metrics) external(j *batchv1.Job) {
	if j.Spec.ManagedBy != nil {
		m.externals.WithLabelValues(*j.Spec.ManagedBy).Inc()
	}
}

// surplusPods counts active pods beyond what a Job requires.
func (m *Metrics) surplusPods(n int) { m.surplus.Add(float64(n)) }

// finalizerChanged counts a finished pod that got or lost the tracking finalizer.
func (m *Metrics) finalizerChanged(before, now bool) {
	switch {
	case before == now:
	case now:
		m.tracked.WithLabelValues("add").Inc()
	default:
		m.tracked.WithLabelValues("delete").Inc()
	}
}
