package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/stage"
)

// EnsureKinds installs the definitions of the kinds that the selected controllers manage.
func EnsureKinds(ctx context.Context, config *rest.Config, list []string) error {
	return ensureKinds(ctx, config, list)
}

// Conversions are the conversion webhooks of our kinds that have several versions, by the name of the service.
func Conversions() map[types.NamespacedName]http.Handler { return conversions() }

// NewControllers prepares controllers, named as in Options.Controllers, for an API server that the caller runs. The function
// that it returns runs them until its context ends. Each uses the configuration of its actor: "kubelet" for the stage
// engine, its own name for others. dir contains the keys of the API server's certificates. The stage engine plays set, or
// the built-in stages if set is nil.
func NewControllers(ctx context.Context, config func(actor string) *rest.Config, list []string, dir string, set *stage.Set) (func(context.Context), error) {
	var parts []func(context.Context)
	add := func(part func(context.Context), err error) error {
		if err == nil {
			parts = append(parts, part)
		}
		return err
	}
	if upstream := upstreamOnly(list); len(upstream) > 0 {
		if err := add(startControllers(ctx, config("controllers"), nil, upstream, dir, nil)); err != nil {
			return nil, err
		}
	}
	if picked(list, Scheduler) {
		settings, err := schedulerSettings("")
		if err != nil {
			return nil, err
		}
		if err := add(startScheduler(ctx, config(Scheduler), nil, settings)); err != nil {
			return nil, err
		}
	}
	if jobsPicked(list) {
		if err := add(startJobs(config(jobAlias), nil, &metrics{})); err != nil {
			return nil, err
		}
	}
	if picked(withoutAlias(list), CloneSet) {
		if err := add(startCloneSets(config(cloneSetAlias), nil, &metrics{})); err != nil {
			return nil, err
		}
	}
	if picked(list, StageController) {
		if err := add(newKubelets(config("kubelet"), set)); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) {
		var work sync.WaitGroup
		for _, part := range parts {
			work.Go(func() { part(ctx) })
		}
		work.Wait()
	}, nil
}

// newKubelets prepares the stage engine for all nodes and pods. Nodes have no leases, because no controller reads them.
func newKubelets(config *rest.Config, set *stage.Set) (func(context.Context), error) {
	if set == nil {
		var err error
		if set, err = LoadStages(nil); err != nil {
			return nil, err
		}
	}
	engine, err := stages.NewStageEngine(config, stages.StageOptions{
		Stages: set, Manage: stages.NodeFilter{All: true}, LeaseDuration: -1, Workers: 1, Logger: slog.Default(),
	})
	if err != nil {
		return nil, fmt.Errorf("kubelets: %w", err)
	}
	return func(ctx context.Context) {
		if err := engine.Run(ctx); err != nil && ctx.Err() == nil {
			slog.Error("stage engine stopped", "error", err)
		}
	}, nil
}

// SetFeatureGates sets feature gates of Kubernetes for this process, each as in "Name=true". Call it before
// anything is started.
func SetFeatureGates(gates []string) error {
	return utilfeature.DefaultMutableFeatureGate.Set(strings.Join(gates, ","))
}
