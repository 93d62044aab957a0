package simulate

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/internal/controller/nodepressure"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi"
)

// parts are the controllers of one term. They start to write together and stop together.
type parts []part

// part is a controller.
type part interface {
	Run(context.Context) error
	Synced() <-chan struct{}
}

// build creates the controllers. They start to write when lead is closed, at once if lead is nil.
func (s *simulation) build(config *rest.Config, lead <-chan struct{}) (p parts, err error) {
	add := func(c part, err error) error {
		p = append(p, c)
		return err
	}
	if s.Stage != nil {
		o := *s.Stage
		o.Metrics, o.Lead = s.metrics, lead
		if err := add(stages.NewStageEngine(config, o)); err != nil {
			return nil, err
		}
	}
	if s.Stage != nil && s.usage != nil {
		run, err := nodepressure.New(config, s.usage, s.owns)
		if err != nil {
			return nil, err
		}
		p = append(p, nodePressure{run, lead})
	}
	if s.Jobs != nil {
		o := *s.Jobs
		o.Metrics, o.Events, o.Lead = s.jobMetrics, config, lead
		if err := add(jobs.New(config, o)); err != nil {
			return nil, err
		}
	}
	if s.CloneSets != nil {
		o := *s.CloneSets
		o.Metrics, o.Events, o.Lead = s.cloneSetMetrics, config, lead
		if err := add(clonesets.New(config, o)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// owns reports whether this process simulates a node.
func (s *simulation) owns(node *corev1.Node) bool {
	return s.Stage.Manage.Matches(node) && s.Stage.Shard.Owns(node.Name)
}

// nodePressure is the controller of node pressure as a part.
type nodePressure struct {
	run  func(context.Context)
	lead <-chan struct{} // nil: it leads at once
}

// Run implements part.
func (p nodePressure) Run(ctx context.Context) error {
	if p.lead != nil {
		select {
		case <-p.lead:
		case <-ctx.Done():
			return nil
		}
	}
	p.run(ctx)
	return nil
}

// Synced implements part. The controller only looks at nodes from time to time: no other part waits for it.
func (p nodePressure) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}

// run runs the controllers until ctx ends; if one fails, the others stop too.
func (p parts) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range p {
		group.Go(func() error { return c.Run(ctx) })
	}
	return group.Wait()
}

// synced returns a channel that is closed when the caches of all controllers have synced, unless ctx ends before.
func (p parts) synced(ctx context.Context) <-chan struct{} {
	all := make(chan struct{})
	go func() {
		for _, c := range p {
			select {
			case <-c.Synced():
			case <-ctx.Done():
				return
			}
		}
		close(all)
	}()
	return all
}

// access lists the permissions that the controllers need.
func (s *simulation) access() (all []reconcile.Access) {
	if s.Stage != nil {
		all = s.Stage.Access()
	}
	if s.Kubelet != nil {
		all = append(all, kubeletapi.Access()...)
	}
	if s.Jobs != nil {
		all = append(all, s.Jobs.Access()...)
	}
	if s.CloneSets != nil {
		all = append(all, s.CloneSets.Access()...)
	}
	return all
}
