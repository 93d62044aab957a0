package clonesets

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// key is what the queue holds.
type key struct {
	namespace, name string
	uid             types.UID
}

// Ref implements shell.Key.
func (k key) Ref() klog.ObjectRef { return klog.KRef(k.namespace, k.name) }

// Controller looks after CloneSets. Without their definition in the API, it is that which
// it waits for before it is synced.
type Controller = reconcile.Controller

// New builds the controller. Nothing is asked of the API before Run.
func New(config *rest.Config, o Options) (*Controller, error) {
	o.complete()
	config = reconcile.Unlimited(config)
	pods := o.Pods
	corrections := &reconcile.Corrections{}
	departed := func(why error) {
		pods.Relist()
		o.Metrics.restarted(corrections.Note(why))
	}
	return reconcile.NewController(v1alpha1.Kind, o.Lead, departed, func() (reconcile.Life, error) {
		life, err := newInstance(config, o, corrections)
		o.Pods = nil // another life begins because a cache was wrong: it reads for itself
		return life, err
	})
}

// Runner is the controller as a function of its client, for worlds that start and end
// it again and again.
func Runner(o Options) func(context.Context, *rest.Config) error {
	return reconcile.Runner(func(config *rest.Config) (*Controller, error) { return New(config, o) })
}
