package simtest

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/stage"
)

const (
	kubeletName   = "kubelet"
	schedulerName = "scheduler"
)

// Kubelet starts two controllers: an actor "scheduler" that binds pods to nodes, and an actor
// "kubelet" that plays stages on all pods, by default the built-in ones: pods start and become
// ready, pods of Jobs succeed, deleted pods terminate. Faults may delay, crash and restart both,
// but the kubelet never has two instances at a time. Options change the stage engine's options.
//
// If the test has created no nodes, Kubelet creates one.
func (w *World) Kubelet(options ...func(*KubeletOptions)) {
	if w.nodes == 0 {
		w.Nodes(1)
	}
	w.Controller(schedulerName, scheduler(w.plan.Seed))
	w.addActor(&actor{name: kubeletName, start: kubelet(w.plan.Seed, options), single: true}, 1)
}

// Nodes creates simulated nodes, node-0, node-1, …, until there are n. They are ready at once, as
// if a kubelet had registered them.
func (w *World) Nodes(n int) {
	for ; w.nodes < n; w.nodes++ {
		w.Create(stages.ReadyNode(fmt.Sprintf("node-%d", w.nodes), w.Now()))
	}
}

// builtinStages compiles the built-in stages once per process; a compiled set is immutable.
var builtinStages = sync.OnceValues(func() (*stage.Set, error) {
	stages, err := stage.Builtin()
	if err != nil {
		return nil, err
	}
	return stage.Compile(stages)
})

// kubelet returns the constructor of the stage engine. Nodes have no leases: no client in a world
// reads them, and each renewal would be a step. The engine has no audit, which is only needed for
// faults that are not legal.
func kubelet(seed uint64, options []func(*stages.StageOptions)) Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		o := stages.StageOptions{
			Seed: seed, Manage: stages.NodeFilter{All: true}, LeaseDuration: -1, Workers: 1, Audit: -1,
		}
		for _, change := range options {
			change(&o)
		}
		if o.Stages == nil {
			stages, err := builtinStages()
			if err != nil {
				return err
			}
			o.Stages = stages
		}
		engine, err := stages.NewStageEngine(config, o)
		if err != nil {
			return err
		}
		return engine.Run(ctx)
	}
}
