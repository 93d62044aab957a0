package family

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/controller"
	"github.com/rehearse-k8s/rehearse/fault"
)

// pace of the feed: the controller does all that it can do between two events.
const pace = time.Millisecond

// Fed is a controller as `rehearse up` runs it: it sees pods through a feed that the parts of
// one process share. with makes its runner for a feed.
func Fed(with func(pods *controller.PodFeed) func(context.Context, *rest.Config) error) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		feed, err := controller.NewPodFeed(config)
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

// Relists are patterns for a search of what a feed does when its watch expires while pods change: an actor's
// pods are listed again at any event, and somebody else deletes, evicts or labels them. A search of all faults
// seldom draws several of these together.
func Relists(actor string) (patterns []fault.Fault) {
	for _, kind := range []fault.Kind{fault.KindRelist, fault.KindLag, fault.KindDelete, fault.KindEvict, fault.KindLabel} {
		patterns = append(patterns, fault.Fault{Kind: kind, Actor: actor, Resource: "pods"})
	}
	return patterns
}
