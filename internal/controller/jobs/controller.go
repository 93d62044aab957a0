package jobs

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// key is an item of the queue: a Job, or a pod with our finalizer that belongs to no Job.
type key struct {
	namespace, name string
	uid             types.UID
	pod             bool
}

// Ref implements reconcile.Key.
func (k key) Ref() klog.ObjectRef { return klog.KRef(k.namespace, k.name) }

// Controller reconciles Jobs.
type Controller = reconcile.Controller

// New creates the controller. It sends no request before Run.
func New(config *rest.Config, o Options) (*Controller, error) {
	o.complete()
	config = reconcile.Unlimited(config)
	pods := o.Pods
	restarted := func(corrected bool) {
		pods.Relist()
		o.Metrics.Restarted(corrected)
	}
	return reconcile.NewController(kind, o.Lead, restarted, func(corrections *reconcile.Corrections) (reconcile.Instance, error) {
		c, err := newInstance(config, o, corrections)
		o.Pods = nil // the next instance, which replaces one with a wrong cache, reads pods itself
		return c, err
	})
}

// kind is the kind in logs and errors.
const kind = "Job"

// Runner returns the controller as a function of its client. Tests restart it by calling that again.
func Runner(o Options) func(context.Context, *rest.Config) error {
	return reconcile.Runner(func(config *rest.Config) (*Controller, error) { return New(config, o) })
}
