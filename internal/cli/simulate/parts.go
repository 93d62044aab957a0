package simulate

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/controller"
	"github.com/rehearse-k8s/rehearse/controller/jobs"
)

// parts are the controllers of one term. They lead together and end together.
type parts struct {
	engine *controller.StageEngine // nil where no stages are played
	jobs   *jobs.Controller        // nil where no Jobs are looked after
}

// build makes the controllers. They begin to write when lead is closed, at once if it
// is nil.
func (s *simulation) build(config *rest.Config, lead <-chan struct{}) (p parts, err error) {
	if s.Stage != nil {
		stage := *s.Stage
		stage.Metrics, stage.Lead = s.metrics, lead
		if p.engine, err = controller.NewStageEngine(config, stage); err != nil {
			return p, err
		}
	}
	if s.Jobs != nil {
		o := *s.Jobs
		o.Metrics, o.Events, o.Lead = s.jobMetrics, config, lead
		p.jobs, err = jobs.New(config, o)
	}
	return p, err
}

// run runs them until ctx ends; when one cannot go on, the other ends too.
func (p parts) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if p.engine != nil {
		group.Go(func() error { return p.engine.Run(ctx) })
	}
	if p.jobs != nil {
		group.Go(func() error { return p.jobs.Run(ctx) })
	}
	return group.Wait()
}

// synced is closed when all know what there is, unless ctx ends before.
func (p parts) synced(ctx context.Context) <-chan struct{} {
	switch {
	case p.engine == nil:
		return p.jobs.Synced()
	case p.jobs == nil:
		return p.engine.Synced()
	}
	both := make(chan struct{})
	go func() {
		for _, synced := range []<-chan struct{}{p.engine.Synced(), p.jobs.Synced()} {
			select {
			case <-synced:
			case <-ctx.Done():
				return
			}
		}
		close(both)
	}()
	return both
}

// access lists the rights of all.
func (s *simulation) access() (all []controller.Access) {
	if s.Stage != nil {
		all = s.Stage.Access()
	}
	if s.Jobs != nil {
		all = append(all, s.Jobs.Access()...)
	}
	return all
}
