package clonesets

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
	"github.com/rehearse-k8s/rehearse/controller/shell"
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
type Controller = shell.Controller

// New builds the controller. Nothing is asked of the API before Run.
func New(config *rest.Config, o Options) (*Controller, error) {
	o.complete()
	config = shell.Unlimited(config)
	feed := o.Pods
	corrections := &shell.Corrections{}
	departed := func(why error) {
		feed.Relist()
		o.Metrics.restarted(corrections.Note(why))
	}
	return shell.NewController(v1alpha1.Kind, o.Lead, departed, func() (shell.Life, error) {
		life, err := newInstance(config, o, corrections)
		o.Pods = nil // another life begins because a cache was wrong: it reads for itself
		return life, err
	})
}

// Runner is the controller as a function of its client, for worlds that start and end
// it again and again.
func Runner(o Options) func(context.Context, *rest.Config) error {
	return shell.Runner(func(config *rest.Config) (*Controller, error) { return New(config, o) })
}
