package cluster

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
)

const (
	// CloneSet is our CloneSet controller.
	CloneSet = "cloneset-controller"

	cloneSetAlias = "cloneset"
)

// startCloneSets prepares our CloneSet controller and returns its run function.
func startCloneSets(config *rest.Config, pods *podcache.Cache, m *metrics) (func(context.Context), error) {
	c, err := clonesets.New(config, clonesets.Options{Events: config, Metrics: m.cloneSets, Pods: pods, Whole: true})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if err := c.Run(ctx); err != nil {
			slog.Error("CloneSet controller stopped", "error", err)
		}
	}, nil
}
