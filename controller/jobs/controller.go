package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// fallback is when a Job is looked at again although no event asked for it, after
	// writes or while a cache is behind. Usually the events come first.
	fallback = time.Second
	// retryFirst and retryMost are the waits after errors.
	retryFirst, retryMost = 100 * time.Millisecond, time.Minute
)

// key is what the queue holds: a Job, or a pod that we hold and that belongs to nobody.
type key struct {
	namespace, name string
	uid             types.UID
	pod             bool
}

// Controller looks after Jobs.
type Controller struct {
	config  *rest.Config
	options Options
	first   *instance
	synced  chan struct{}
}

// New builds the controller. Nothing is asked of the API before Run.
func New(config *rest.Config, o Options) (*Controller, error) {
	o.complete()
	c := &Controller{config: unlimited(config), options: o, synced: make(chan struct{})}
	var err error
	c.first, err = newInstance(c.config, o)
	return c, err
}

// Synced is closed once the caches show what there is, or, with Options.Lead, once the
// controller stands by.
func (c *Controller) Synced() <-chan struct{} { return c.synced }

// Run looks after Jobs until ctx ends, and returns when its workers and informers have.
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
		if ctx.Err() != nil || !errors.Is(err, errDeparted) {
			return err
		}
		klog.FromContext(ctx).Error(err, "The Job controller begins anew")
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

// unlimited lets the API server's own priority and fairness say who waits. A limit that
// the caller has set stays.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS = -1
	}
	if config.ContentType == "" {
		config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	}
	return config
}

// consistent makes the first list show all that was written before it: a process that
// has just begun knows nothing of its predecessor's writes, and could not tell that a
// list from some server's cache is older than they are.
func consistent(o *metav1.ListOptions) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
}
