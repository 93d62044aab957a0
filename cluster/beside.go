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

// CheckControllers refuses names of controllers that nothing here has, and a list that
// starts all of them with "*".
func CheckControllers(list []string) error { return validateControllers(list) }

// EnsureKinds makes an API know the kinds that the picked controllers work on.
func EnsureKinds(ctx context.Context, config *rest.Config, list []string) error {
	return ensureKinds(ctx, config, list)
}

// Conversions answer for our kinds of several versions.
func Conversions() map[types.NamespacedName]http.Handler { return conversions() }

// Beside prepares controllers, named as in Options.Controllers, to run against an API that
// somebody else has started, and returns what runs them until its context ends. Each is a
// client of the config of its actor: kubelet for the stage engine, its own name for any
// other. dir has the keys of the API server's certificates; set is nil for the built-in ones.
func Beside(ctx context.Context, config func(actor string) *rest.Config, list []string, dir string, set *stage.Set) (func(context.Context), error) {
	var parts []func(context.Context)
	add := func(part func(context.Context), err error) error {
		if err == nil {
			parts = append(parts, part)
		}
		return err
	}
	if upstream := upstreamOnly(list); len(upstream) > 0 {
		if err := add(startControllers(ctx, config("controllers"), nil, upstream, dir)); err != nil {
			return nil, err
		}
	}
	if picked(list, Scheduler) {
		if err := add(startScheduler(ctx, config(Scheduler), nil)); err != nil {
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
		if err := add(kubelets(config("kubelet"), set)); err != nil {
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

// kubelets play the life of all nodes and pods. Nodes keep no leases: nobody looks at them.
func kubelets(config *rest.Config, set *stage.Set) (func(context.Context), error) {
	if set == nil {
		var err error
		if set, err = loadStages(nil); err != nil {
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
			slog.Error("the stage engine ended", "error", err)
		}
	}, nil
}

// SetFeatureGates sets feature gates of Kubernetes for this process, each as in "Name=true".
// It must come before anything is started.
func SetFeatureGates(gates []string) error {
	return utilfeature.DefaultMutableFeatureGate.Set(strings.Join(gates, ","))
}
