package family

import (
	"context"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/controller"
)

// Fed is a controller as `rehearse up` runs it: it sees pods through a feed that the parts of
// one process share. with makes its runner for a feed.
func Fed(with func(pods *controller.PodFeed) func(context.Context, *rest.Config) error) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		feed, err := controller.NewPodFeed(config)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		var reading sync.WaitGroup
		defer reading.Wait()
		defer stop()
		reading.Go(func() { feed.Run(ctx) })
		return with(feed)(ctx, config)
	}
}
