package cluster

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/stage"
)

// startStages prepares the stage engine for the nodes that are annotated as simulated, and returns its run function.
func startStages(config *rest.Config, set *stage.Set, pods *podcache.Cache, m *metrics, leases time.Duration) (func(context.Context), error) {
	engine, err := stages.NewStageEngine(config, stages.StageOptions{
		Stages: set, Watch: true, Logger: slog.Default(), Metrics: m.engine, Pods: pods, LeaseDuration: leases,
	})
	if err != nil {
		return nil, err
	}
	m.watch(engine)
	return func(ctx context.Context) {
		if err := engine.Run(ctx); err != nil {
			slog.Error("stage engine stopped", "error", err)
		}
	}, nil
}
