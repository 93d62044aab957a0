package clonesets

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/controller/shell"
)

const (
	// fallback is when a set is looked at again although no event asked for it, after
	// writes or while a cache is behind. Usually the events come first.
	fallback = time.Second
	// retryFirst and retryMost are the waits after errors.
	retryFirst, retryMost = 100 * time.Millisecond, time.Minute
)

// key is what the queue holds.
type key struct {
	namespace, name string
	uid             types.UID
}

// Controller looks after CloneSets.
type Controller struct {
	config  *rest.Config
	options Options
	first   *instance
	synced  chan struct{}
}

// New builds the controller. Nothing is asked of the API before Run.
func New(config *rest.Config, o Options) (*Controller, error) {
	o.complete()
	c := &Controller{config: shell.Unlimited(config), options: o, synced: make(chan struct{})}
	var err error
	c.first, err = newInstance(c.config, o)
	return c, err
}

// Synced is closed once the caches show what there is, or, with Options.Lead, once the
// controller stands by. Without the definition of CloneSet in the API, that is waited for.
func (c *Controller) Synced() <-chan struct{} { return c.synced }

// Run looks after CloneSets until ctx ends, and returns when its workers and informers have.
// An instance whose caches have departed from the API is given up, with all that it
// remembers, and another one begins. It is called once.
func (c *Controller) Run(ctx context.Context) error {
	synced := sync.OnceFunc(func() { close(c.synced) })
	if c.options.Lead != nil {
		synced()
		select {
		case <-c.options.Lead:
		case <-ctx.Done():
			return nil
		}
	}
	for i := c.first; ; {
		err := i.run(ctx, synced)
		if ctx.Err() != nil || !errors.Is(err, shell.ErrDeparted) {
			return err
		}
		klog.FromContext(ctx).Error(err, "The CloneSet controller begins anew")
		c.options.Metrics.restarted()
		if i, err = newInstance(c.config, c.options); err != nil {
			return err
		}
	}
}

// Runner is the controller as a function of its client, for worlds that start and end
// it again and again.
func Runner(o Options) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		c, err := New(config, o)
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}
}
