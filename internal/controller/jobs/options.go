package jobs

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// ManagedBy is the value of spec.managedBy by which a Job asks for this controller.
const ManagedBy = "rehearse-k8s.github.io/job-controller"

// Options say what the controller does. The zero value looks after the Jobs that ask
// for it by name.
type Options struct {
	// All takes the place of upstream's controller too: Jobs without spec.managedBy,
	// or with upstream's name there, are looked after. Only where upstream's is off.
	All bool
	// Workers is how many Jobs are looked after at the same time (10).
	Workers int
	// Writes is how many pods of one Job are written at the same time (16).
	Writes int
	// Limits of plans (job.DefaultLimits).
	Limits job.Limits
	// Events is the client that Events are sent with, so that they have a budget of
	// their own and hold up nothing; nil sends none.
	Events *rest.Config
	// Audit is how often the caches are compared with the API, for the day on which an
	// event is lost for good (10 minutes; less than 0 for never).
	Audit time.Duration
	// Pods, if it is not nil, are what the controller sees of pods, in place of a watch of its
	// own, until an audit finds that a cache has departed from the API: from then on
	// it reads for itself.
	Pods *podcache.Cache
	// Metrics, if it is not nil, is told what happens.
	Metrics *Metrics
	// Lead, if it is not nil, is closed when this instance may begin. Only then does it
	// read anything, so that it begins with all that the one before it has written.
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
}

// mine tells whether a Job is looked after here.
func (o *Options) mine(j *batchv1.Job) bool {
	switch ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) {
	case ManagedBy:
		return true
	case batchv1.JobControllerName:
		return o.All
	}
	return false
}
