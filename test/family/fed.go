package family

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
)

// pace of the feed: the controller does all that it can do between two events.
const pace = time.Millisecond

// Fed is a controller as `rehearse up` runs it: it sees pods through a feed that the parts of
// one process share. with makes its runner for a feed.
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

// Relists are patterns for a search of what a feed does when its watch expires while pods change: an actor's
// pods are listed again after any event, when much has happened. A search of all faults seldom does that.
func Relists(actor string) []fault.Fault {
	return []fault.Fault{
		{Kind: fault.KindRelist, Actor: actor, Resource: "pods", For: 3 * time.Second},
		{Kind: fault.KindRelist, Actor: actor, Resource: "pods", For: 40 * time.Second},
	}
}
