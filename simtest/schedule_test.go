package simtest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// twoChildren creates two children of different kinds, records that they exist, and compares this record with its caches. If
// neither cache has its child, it concludes that another user has deleted both. That is wrong if the events of both children
// arrive after the answer to the second write and to one more request. A single fault delays at most one of the two.
func twoChildren(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	configMaps, secrets := factory.Core().V1().ConfigMaps(), factory.Core().V1().Secrets()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(any) { queue.Add("app") }
	for _, informer := range []cache.SharedIndexInformer{configMaps.Informer(), secrets.Informer()} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }, DeleteFunc: add}); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	context.AfterFunc(ctx, queue.ShutDown)
	child := metav1.ObjectMeta{Name: "child"}
	sync := func() error {
		app, err := client.CoreV1().ConfigMaps("default").Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		_, noConfigMap := configMaps.Lister().ConfigMaps("default").Get("child")
		_, noSecret := secrets.Lister().Secrets("default").Get("child")
		switch {
		case noConfigMap == nil && noSecret == nil && app.Data["created"] == "yes":
			return nil
		case noConfigMap != nil && noSecret != nil && app.Data["created"] == "yes":
			app.Data["lost"] = "yes"
			_, err := client.CoreV1().ConfigMaps("default").Update(ctx, app, metav1.UpdateOptions{})
			return err
		}
		if noConfigMap != nil {
			if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: child}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		if noSecret != nil {
			if _, err := client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: child}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		if app.Data["created"] == "yes" {
			return nil
		}
		app.Data = map[string]string{"created": "yes"}
		if _, err := client.CoreV1().ConfigMaps("default").Update(ctx, app, metav1.UpdateOptions{}); err != nil {
			return err
		}
		queue.Add("app") // to check the children
		return nil
	}
	for {
		key, over := queue.Get()
		if over {
			return nil
		}
		if err := sync(); err != nil {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

func twoChildrenTest(w *simtest.World) {
	w.Controller("children", twoChildren)
	w.Always(invariant.Never(invariant.Field("configmaps", "default", "app", "data.lost", "yes")))
	w.Settle()
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "app"}})
}

// TestScheduleFindsOrder checks that schedules without faults find the bug of twoChildren for 20 seeds, that all single faults
// without schedules do not, and that the failure is shrunk to a schedule without faults and with the smallest depth.
func TestScheduleFindsOrder(t *testing.T) {
	const limit = 60
	var found []int
	for seed := range uint64(20) {
		r := simtest.Explore(t, simtest.Seeds(limit).Seed(seed+1), func(w *simtest.World) {
			w.Faults()
			twoChildrenTest(w)
		})
		f := r.Failure
		if f == nil {
			t.Errorf("seed %d: not found in %d runs", seed+1, r.Runs)
			continue
		}
		found = append(found, f.FoundAfter)
		for simpler := f.Plan.Schedule; simpler.Depth > 0; {
			simpler.Depth--
			if out := simtest.Play(t, simtest.Options{}, sim.Plan{Seed: f.Plan.Seed, Schedule: simpler}, twoChildrenTest); out.Run.Failure != nil {
				t.Errorf("seed %d: not shrunk: it also fails with %+v", seed+1, simpler)
			}
		}
		if len(f.Plan.Faults) > 0 || f.Grade() != "3/3 identical" || f.Run.Schedule != f.Plan.Schedule {
			t.Errorf("seed %d: schedule %s, faults %v, %s", seed+1, f.Run.Schedule, f.Plan.Faults, f.Grade())
		}
		if text := f.Summary("", "all").String(); !strings.Contains(text, f.Plan.Schedule.String()) || !strings.Contains(text, "needs no fault, only the order") {
			t.Errorf("the summary does not describe the schedule:\n%s", text)
		}
	}
	slices.Sort(found)
	t.Logf("found in run %v; median %d, of at most %d", found, found[len(found)/2], limit)

	singles := 0
	for _, place := range simtest.Explore(t, simtest.Seeds(3).OldestFirst(), twoChildrenTest).Places {
		for _, f := range place.Untried {
			if f.Kind == fault.KindOutage || f.Kind == fault.KindOtherServer {
				continue // it ends all streams, and so it also delays the event
			}
			singles++
			if out := simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1, Faults: []fault.Fault{f}}, twoChildrenTest); out.Run.Failure != nil {
				t.Errorf("%s alone fails: %+v", f, out.Run.Failure)
			}
		}
	}
	if singles < 100 {
		t.Errorf("only %d single faults", singles)
	}
}

// TestScheduleOrders plays the pods of podTest under many schedules: the order of requests and events differs, the events
// of each stream stay in order, and all are delivered.
func TestScheduleOrders(t *testing.T) {
	orders := map[string]bool{}
	for n := range 40 {
		run := passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7, Schedule: history.Schedule{Seed: uint64(n), Depth: 1 + n%4, Choices: 40}}, podTest(3)))
		reached, wrote := map[int]int64{}, int64(0)
		var order strings.Builder
		for i := range run.Steps {
			s := &run.Steps[i]
			switch {
			case s.Kind == history.Frame && s.Type != "BOOKMARK":
				if s.Revision <= reached[s.Stream] {
					t.Fatalf("schedule %d: stream %d delivers revision %d after %d", n, s.Stream, s.Revision, reached[s.Stream])
				}
				reached[s.Stream] = s.Revision
			case s.Wrote() && s.Resource == "pods":
				wrote = s.Revision
			}
			fmt.Fprintf(&order, "%s %s;", s.Kind, s.Actor)
		}
		orders[order.String()] = true
		if last := slices.Max(slices.Collect(maps.Values(reached))); last != wrote {
			t.Errorf("schedule %d: the last delivered revision is %d, the last written %d", n, last, wrote)
		}
	}
	t.Logf("40 schedules have %d different orders", len(orders))
	if len(orders) < 10 {
		t.Errorf("40 schedules have only %d different orders", len(orders))
	}
}

// impatient creates a ConfigMap, and reads it until its cache has it, without a pause.
func impatient(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	configMaps := factory.Core().V1().ConfigMaps().Lister().ConfigMaps("default")
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for ctx.Err() == nil {
		if _, err := configMaps.Get("x"); err == nil {
			<-ctx.Done()
			break
		}
		_, _ = client.CoreV1().ConfigMaps("default").Get(ctx, "x", metav1.GetOptions{})
	}
	return nil
}

// TestScheduleDelaysNothingForEver checks that an event is delivered to a controller that sends requests until it arrives, whatever
// the schedule, and before the requests count as a hot loop.
func TestScheduleDelaysNothingForEver(t *testing.T) {
	most := 0
	for seed := range uint64(20) {
		run := passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7, Schedule: history.Schedule{Seed: seed, Depth: 1, Choices: 20}}, func(w *simtest.World) {
			w.Controller("impatient", impatient)
		}))
		gets := 0
		for i := range run.Steps {
			if run.Steps[i].Verb == "get" {
				gets++
			}
		}
		most = max(most, gets)
	}
	t.Logf("up to %d requests before the event", most)
	if most < 10 {
		t.Errorf("only %d requests came before the event", most)
	}
}
