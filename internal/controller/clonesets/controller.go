package clonesets

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// key is an item of the queue.
type key struct {
	namespace, name string
	uid             types.UID
}

// Ref implements reconcile.Key.
func (k key) Ref() klog.ObjectRef { return klog.KRef(k.namespace, k.name) }

// Controller reconciles CloneSets. While the API does not have the CustomResourceDefinition of CloneSets, it
// waits for it and is not synced.
type Controller = reconcile.Controller

// New creates the controller. It sends no request before Run.
func New(config *rest.Config, o Options) (*Controller, error) {
	o.complete()
	config = reconcile.Unlimited(config)
	pods := o.Pods
	restarted := func(corrected bool) {
		pods.Relist()
		o.Metrics.restarted(corrected)
	}
	return reconcile.NewController(v1alpha1.Kind, o.Lead, restarted, func(corrections *reconcile.Corrections) (reconcile.Instance, error) {
		c, err := newInstance(config, o, corrections)
		o.Pods = nil // the next instance, which replaces one with a wrong cache, reads pods itself
		return c, err
	})
}

// Runner returns the controller as a function of its client. Tests restart it by calling that again.
func Runner(o Options) func(context.Context, *rest.Config) error {
	return reconcile.Runner(func(config *rest.Config) (*Controller, error) { return New(config, o) })
}
