package simtest_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestOneByOne starts goroutines in an order that no seed decides, as the race detector's
// build does with all of them: what each draws must not depend on it. One of them has nobody who
// ends it, and must not keep the run.
func TestOneByOne(t *testing.T) {
	var first map[int]int64
	for n := range 10 {
		drawn := map[int]int64{}
		held(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
			w.Controller("many", func(ctx context.Context, _ *rest.Config) error {
				var all sync.WaitGroup
				var mu sync.Mutex
				for _, i := range randv2.Perm(8) {
					all.Go(func() {
						simtest.OneByOne(context.Background(), w, fmt.Sprint(i))
						mu.Lock()
						defer mu.Unlock()
						drawn[i] = rand.Int63()
					})
				}
				all.Wait()
				<-ctx.Done()
				simtest.OneByOne(context.Background(), w, "too late")
				return nil
			})
			w.Advance(time.Second)
		}))
		if n == 0 {
			first = drawn
		}
		if len(drawn) != 8 || !maps.Equal(drawn, first) {
			t.Fatalf("run %d drew %v; the first one drew %v", n, drawn, first)
		}
	}
}
