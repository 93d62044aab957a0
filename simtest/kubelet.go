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

// Kubelet lets pods live: an actor "scheduler" binds those without a node, and an
// actor "kubelet" plays stages on all of them, by default the built-in ones: pods
// run and are ready, pods of Jobs succeed, pods that are being deleted go. Both are
// controllers like others and may be slow, crash and come back; but no pod ever has
// two kubelets at a time. Options change what the stage engine is made with.
//
// If the story has made no nodes yet, Kubelet makes one.
func (w *World) Kubelet(options ...func(*KubeletOptions)) {
	if w.nodes == 0 {
		w.Nodes(1)
	}
	w.Controller(schedulerName, scheduler(w.plan.Seed))
	w.enlist(&actor{name: kubeletName, start: kubelet(w.plan.Seed, options), single: true}, 1)
}

// Nodes makes simulated nodes, node-0, node-1, …, until there are n. They are ready
// from the beginning, as after a kubelet has registered itself.
func (w *World) Nodes(n int) {
	for ; w.nodes < n; w.nodes++ {
		w.Create(stages.ReadyNode(fmt.Sprintf("node-%d", w.nodes), w.Now()))
	}
}

// builtinStages are compiled once in the process; a set does not change.
var builtinStages = sync.OnceValues(func() (*stage.Set, error) {
	stages, err := stage.Builtin()
	if err != nil {
		return nil, err
	}
	return stage.Compile(stages)
})

// kubelet is the constructor of the stage engine. Nodes keep no leases: nobody in a
// world looks at them, and each renewal would be a step. It has no audit, which is for
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
