package simtest_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// copies is how many ConfigMaps the user creates below, so that several wait in the queue.
const copies = 5

// copiesTest runs the copier with changed options of its manager.
func copiesTest(setup func(ctrl.Manager) error, options ...func(*ctrl.Options)) func(*simtest.World) {
	return func(w *simtest.World) {
		for n := range copies {
			w.Create(configMap(fmt.Sprint("c", n), "one"))
		}
		w.Manager("copier", setup, options...)
		w.Settle()
		for n := range copies {
			w.Apply(configMap(fmt.Sprint("c", n), "two"))
		}
		for n := range copies {
			w.Eventually(time.Minute, invariant.Field("secrets", "default", fmt.Sprint("c", n), "data.copy", "dHdv"))
		}
	}
}

func withPriorityQueue(o *ctrl.Options) { o.Controller.UsePriorityQueue = ptr.To(true) }

func withWorkers(o *ctrl.Options) { o.Controller.MaxConcurrentReconciles = 3 }

// copierWithLateHandler is the copier, which also copies a ConfigMap when a handler is called that is added after the caches
// have synced.
func copierWithLateHandler(mgr ctrl.Manager) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		informer, err := mgr.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
		if err != nil {
			return err
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil
		}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[client.ObjectKey]())
		context.AfterFunc(ctx, queue.ShutDown)
		add := func(o any) { queue.Add(client.ObjectKeyFromObject(o.(*corev1.ConfigMap))) }
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }})
		if err != nil || !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return err
		}
		for {
			key, over := queue.Get()
			if over {
				return nil
			}
			if err := copySecret(ctx, mgr.GetClient(), key); err != nil {
				queue.AddRateLimited(key)
			} else {
				queue.Forget(key)
			}
			queue.Done(key)
		}
	}))
}

// copySecret creates or updates the copy of a ConfigMap.
func copySecret(ctx context.Context, c client.Client, key client.ObjectKey) error {
	var from corev1.ConfigMap
	if err := c.Get(ctx, key, &from); err != nil {
		return client.IgnoreNotFound(err)
	}
	to := &corev1.Secret{}
	to.Namespace, to.Name = from.Namespace, from.Name
	_, err := ctrl.CreateOrUpdate(ctx, c, to, func() error {
		to.Data = map[string][]byte{"copy": []byte(from.Data["text"])}
		return nil
	})
	return err
}

// settings are tests whose controllers have settings that are usual in production.
var settings = map[string]func(*simtest.World){
	"priority queue":             copiesTest(copier, withPriorityQueue),
	"workers":                    copiesTest(copier, withWorkers),
	"priority queue and workers": copiesTest(copier, withPriorityQueue, withWorkers),
	"late handler":               copiesTest(copierWithLateHandler),
}

// TestSettingsRepeat checks that runs with these settings repeat: without a schedule, with one, and with faults.
func TestSettingsRepeat(t *testing.T) {
	lag := fault.Fault{Kind: fault.KindLag, Actor: "copier", Resource: "secrets", Nth: 2}
	crash := fault.Fault{Kind: fault.KindCrashAfter, Actor: "copier", Verb: "update", Resource: "secrets", Nth: 2}
	for name, test := range settings {
		for what, plan := range map[string]sim.Plan{
			"as it is":   {Seed: 7},
			"a schedule": {Seed: 7, Schedule: history.Schedule{Seed: 5, Depth: 2, Choices: 40}},
			"faults":     {Seed: 7, Faults: []fault.Fault{lag, crash}},
		} {
			t.Run(name+"/"+what, func(t *testing.T) { repeatsPlan(t, simtest.Options{}, test, plan) })
		}
	}
}

var settingsFlag = flag.Int("settings.plans", 60, "how many plans TestSettingsUnderFaults executes twice for each setting")

// TestSettingsUnderFaults executes single faults, each with and without a schedule, twice: no run gets stuck, and the steps are the same. The Go
// runtime still decides some things at random: allow one plan in fifty.
func TestSettingsUnderFaults(t *testing.T) {
	for name, test := range settings {
		t.Run(name, func(t *testing.T) {
			first := simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7}, test)
			singles := slices.DeleteFunc(sim.Candidates(first.Run, fault.Any(fault.Legal), sim.Virtual), func(f fault.Fault) bool {
				return f.Kind.Class() == fault.Interference // which the copier with a late handler does not repair
			})
			plans, differing := 0, 0
			for n := 0; n < len(singles) && plans < *settingsFlag; n += max(1, len(singles)/(*settingsFlag)) {
				plan := sim.Plan{Seed: 7, Faults: singles[n : n+1]}
				if n%2 == 1 {
					plan.Schedule = history.Schedule{Seed: uint64(n), Depth: 2, Choices: first.Choices}
				}
				plans++
				once, again := simtest.Play(t, simtest.Options{}, plan, test), simtest.Play(t, simtest.Options{}, plan, test)
				if f := once.Run.Failure; f != nil {
					t.Errorf("%s, schedule %+v: %s: %s", singles[n], plan.Schedule, f.Oracle, f.Message)
				}
				if step, diverged := history.Diverged(once.Run, again.Run); diverged {
					differing++
					t.Logf("%s, schedule %+v: differs at step %d: %s", singles[n], plan.Schedule, step, line(&again.Run.Steps[min(step, len(again.Run.Steps)-1)]))
				}
			}
			t.Logf("%d of %d plans differ", differing, plans)
			if differing > plans/50 {
				t.Errorf("%d of %d plans have different steps when they are executed again", differing, plans)
			}
		})
	}
}

// TestLateHandlers checks that handlers that are added after the cache has synced receive the objects in the order of their names,
// and that they count as synced when they have.
func TestLateHandlers(t *testing.T) {
	for range 5 {
		var order []string
		passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
			for n := range 2 * copies {
				w.Create(configMap(fmt.Sprint("c", n), "one"))
			}
			w.Manager("late", func(mgr ctrl.Manager) error {
				return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
					informer, err := mgr.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
					if err != nil || !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
						return err
					}
					if _, ok := informer.(toolscache.SharedIndexInformer); !ok {
						t.Error("the informer is no SharedIndexInformer")
					}
					order = nil
					registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
						AddFunc:    func(o any) { order = append(order, "add "+o.(*corev1.ConfigMap).Name) },
						UpdateFunc: func(_, o any) { order = append(order, "update "+o.(*corev1.ConfigMap).Name) },
						DeleteFunc: func(o any) { order = append(order, "delete "+o.(*corev1.ConfigMap).Name) },
					})
					if err != nil {
						return err
					}
					select {
					case <-registration.HasSyncedChecker().Done():
					case <-ctx.Done():
					}
					order = append(order, fmt.Sprint("synced ", registration.HasSynced()))
					<-ctx.Done()
					return informer.RemoveEventHandler(registration)
				}))
			})
			w.Advance(time.Minute)
			w.Apply(configMap("c1", "two"))
			w.Create(configMap("b", "one"))
			w.Delete(configMap("c2", ""))
		}))
		want := []string{"add c0", "add c1", "add c2", "add c3", "add c4", "add c5", "add c6", "add c7", "add c8", "add c9", "synced true", "update c1", "add b", "delete c2"}
		if !slices.Equal(order, want) {
			t.Fatalf("%q, want %q", order, want)
		}
	}
}
