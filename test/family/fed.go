package family

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
)

// pace is the pause between two events of the shared cache: the controller finishes its work in between.
const pace = time.Millisecond

// Fed returns a controller as `rehearse up` runs it: it reads pods from the cache that all controllers of one
// process share. with creates its runner for a cache.
func Fed(with func(pods *podcache.Cache) func(context.Context, *rest.Config) error) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		feed, err := podcache.New(config)
		if err != nil {
			return err
		}
		feed.Pace = pace
		ctx, stop := context.WithCancel(ctx)
		var reading sync.WaitGroup
		defer reading.Wait()
		defer stop()
		reading.Go(func() { feed.Run(ctx) })
		return with(feed)(ctx, config)
	}
}

// Relists returns patterns for a search of what a shared cache does when its watch expires while pods change:
// an actor's pods are listed again after any event, when many pods have changed. A search of all faults seldom
// does that.
func Relists(actor string) []fault.Fault {
	return []fault.Fault{
		{Kind: fault.KindRelist, Actor: actor, Resource: "pods", For: 3 * time.Second},
		{Kind: fault.KindRelist, Actor: actor, Resource: "pods", For: 40 * time.Second},
		{Kind: fault.KindRelist, Actor: actor, For: 3 * time.Second}, // some cases have no pods
	}
}
