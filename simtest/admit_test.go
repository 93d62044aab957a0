package simtest_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestOneByOne starts goroutines in an order that no seed determines, as a build with the race
// detector does: the numbers that each draws must not depend on this order. One goroutine still
// waits when the run is over, and must not block it.
func TestOneByOne(t *testing.T) {
	var first map[int]int64
	for n := range 10 {
		drawn := map[int]int64{}
		passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
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

// TestInformersOneByOne checks that informers are created in the same order, whatever the order in
// which the parts of a manager ask for them.
func TestInformersOneByOne(t *testing.T) {
	want := []string{"*v1.ConfigMap", "*v1.Pod", "*v1.Secret", "*v1.Service"}
	for range 5 {
		var made []string
		passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
			w.Manager("many", func(mgr ctrl.Manager) error {
				return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
					var all sync.WaitGroup
					var mu sync.Mutex
					objects := []client.Object{&corev1.ConfigMap{}, &corev1.Pod{}, &corev1.Secret{}, &corev1.Service{}}
					for _, i := range randv2.Perm(len(objects)) {
						all.Go(func() {
							if _, err := mgr.GetCache().GetInformer(ctx, objects[i]); err != nil {
								t.Error(err)
							}
							mu.Lock()
							defer mu.Unlock()
							made = append(made, fmt.Sprintf("%T", objects[i]))
						})
					}
					all.Wait()
					<-ctx.Done()
					return nil
				}))
			})
			w.Settle()
		}))
		if !slices.Equal(made, want) {
			t.Fatalf("created in the order %v, want %v", made, want)
		}
	}
}
