package jobs

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// ManagedBy is the value of spec.managedBy that selects this controller.
const ManagedBy = "rehearse-k8s.github.io/job-controller"

// Options configure the controller. With the zero value it reconciles the Jobs that name it in
// spec.managedBy.
type Options struct {
	// All replaces upstream's controller: Jobs without spec.managedBy, or with upstream's name there, are
	// reconciled too. Set it only where upstream's controller does not run.
	All bool
	// Workers is how many Jobs are reconciled concurrently (10).
	Workers int
	// Writes is how many pods of one Job are written concurrently (16).
	Writes int
	// Limits of plans (job.DefaultLimits).
	Limits job.Limits
	// Events is the client for Events, which have a rate limit of their own; nil sends none.
	Events *rest.Config
	// Audit is how often the caches are compared with the API, to detect an event that was lost for good
	// (10 minutes; negative: never).
	Audit time.Duration
	// Pods, if it is not nil, is the shared cache that pods are read from, instead of a watch of the
	// controller's own. After an audit has found a wrong cache, the controller watches pods itself.
	Pods *podcache.Cache
	// Metrics, if it is not nil, counts what the controller does.
	Metrics *Metrics
	// Lead, if it is not nil, is closed when this instance becomes the leader. The controller reads nothing
	// before, so that it starts with all writes of the previous leader.
	Lead <-chan struct{}
}

func (o *Options) complete() {
	if o.Workers <= 0 {
		o.Workers = 10
	}
	if o.Writes <= 0 {
		o.Writes = 16
	}
	if o.Audit == 0 {
		o.Audit = 10 * time.Minute
	}
	if o.Limits == (job.Limits{}) {
		o.Limits = job.DefaultLimits
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
}

// manages reports whether this controller reconciles a Job.
func (o *Options) manages(j *batchv1.Job) bool {
	switch ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) {
	case ManagedBy:
		return true
	case batchv1.JobControllerName:
		return o.All
	}
	return false
}
