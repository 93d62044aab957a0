package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Instance is a running controller: its caches, its queue and its memory.
type Instance interface {
	// Run reconciles until ctx ends and returns nil, or until a cache turns out to be wrong and returns
	// ErrDiverged. It calls synced once the caches have their first list; it may call it again.
	Run(ctx context.Context, synced func()) error
}

// Controller runs an Instance, and replaces it with a new one when its caches are wrong.
type Controller struct {
	kind        string
	newInstance func(*Corrections) (Instance, error)
	first       Instance
	lead        <-chan struct{}
	restarted   func(corrected bool)
	corrections *Corrections
	synced      chan struct{}
}

// NewController creates a Controller and its first Instance; newInstance must not send requests. kind is the
// kind that it reconciles, as in "Job". If lead is not nil, Run reads nothing before lead is closed. restarted
// is called when an Instance was replaced; corrected is true if the API server's watch cache was wrong, so
// that the next Instance corrects what it reads from there. NewController returns an error if client-go's
// stores do not report their revisions (RequireRevisions).
func NewController(kind string, lead <-chan struct{}, restarted func(corrected bool), newInstance func(*Corrections) (Instance, error)) (*Controller, error) {
	if err := RequireRevisions(); err != nil {
		return nil, fmt.Errorf("create %s controller: %w", kind, err)
	}
	c := &Controller{kind: kind, newInstance: newInstance, lead: lead, restarted: restarted, corrections: &Corrections{}, synced: make(chan struct{})}
	var err error
	if c.first, err = newInstance(c.corrections); err != nil {
		return nil, fmt.Errorf("create %s controller: %w", kind, err)
	}
	return c, nil
}

// Synced is closed once the caches have their first list; with a lead, once the controller is on standby.
func (c *Controller) Synced() <-chan struct{} { return c.synced }

// Run reconciles until ctx ends, and returns when all workers and informers have stopped. An Instance
// whose caches are wrong is replaced, with all that it remembers. Run may be called once.
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
	for instance := c.first; ; {
		err := instance.Run(ctx, synced)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, ErrDiverged) {
			return fmt.Errorf("run %s controller: %w", c.kind, err)
		}
		klog.FromContext(ctx).Error(err, "A cache is wrong: the controller restarts", "kind", c.kind)
		c.restarted(c.corrections.Note(err))
		if instance, err = c.newInstance(c.corrections); err != nil {
			return fmt.Errorf("restart %s controller: %w", c.kind, err)
		}
	}
}

// Runner returns a function that builds a controller for a client and runs it. Tests restart a controller
// by calling it again.
func Runner(build func(*rest.Config) (*Controller, error)) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		c, err := build(config)
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}
}
