package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Life is one life of a controller: its caches, its queue and what it remembers.
type Life interface {
	// Run looks after things until ctx ends, which is no error, or returns ErrDeparted when a
	// cache is wrong. synced is called once the caches show what there is, and may be again.
	Run(ctx context.Context, synced func()) error
}

// Controller lives one life after another.
type Controller struct {
	kind      string
	begin     func() (Life, error)
	first     Life
	lead      <-chan struct{}
	restarted func(why error)
	synced    chan struct{}
}

// NewController prepares the first life; begin asks nothing of the API. kind is what it
// looks after, as in "Job". With lead, which is closed when this instance may begin, nothing
// is read before that. restarted is called when a life was given up. It is an error if caches do
// not report their revisions (RequireRevisions).
func NewController(kind string, lead <-chan struct{}, restarted func(why error), begin func() (Life, error)) (*Controller, error) {
	if err := RequireRevisions(); err != nil {
		return nil, fmt.Errorf("create %s controller: %w", kind, err)
	}
	first, err := begin()
	if err != nil {
		return nil, fmt.Errorf("%s controller: %w", kind, err)
	}
	return &Controller{kind: kind, begin: begin, first: first, lead: lead, restarted: restarted, synced: make(chan struct{})}, nil
}

// Synced is closed once the caches show what there is, or, with a lead, once the
// controller stands by.
func (c *Controller) Synced() <-chan struct{} { return c.synced }

// Run goes on until ctx ends, and returns when workers and informers have. A life whose
// caches have departed from the API is given up, with all that it remembers, and another
// one begins. It is called once.
func (c *Controller) Run(ctx context.Context) error {
	synced := sync.OnceFunc(func() { close(c.synced) })
	if c.lead != nil {
		synced()
		select {
		case <-c.lead:
		case <-ctx.Done():
			return nil
		}
	}
	for life := c.first; ; {
		err := life.Run(ctx, synced)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, ErrDeparted) {
			return fmt.Errorf("%s controller: %w", c.kind, err)
		}
		klog.FromContext(ctx).Error(err, "The controller begins anew", "kind", c.kind)
		c.restarted(err)
		if life, err = c.begin(); err != nil {
			return fmt.Errorf("%s controller: %w", c.kind, err)
		}
	}
}

// Runner makes a controller a function of its client, for worlds that start and end it
// again and again.
func Runner(build func(*rest.Config) (*Controller, error)) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		c, err := build(config)
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}
}
