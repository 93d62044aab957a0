package simtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestLateResync checks that a resync that comes after the end of the runs without faults is no failure: before a
// difference of the final state is reported, a run without faults is observed for longer.
func TestLateResync(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(40), func(w *simtest.World) {
		w.Controller("agent", beats(func(int, int) time.Duration { return 4 * time.Minute }))
	})
	if r.Failure != nil {
		t.Errorf("got %+v", r.Failure.Run.Failure)
	}
	if !slices.Contains(r.NotCompared, "configmaps data.beats") {
		t.Errorf("not compared: %q", r.NotCompared)
	}
}

// after returns a controller that creates a ConfigMap once, some time after its first start.
func after(d time.Duration) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil
		}
		for ctx.Err() == nil {
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
			if err == nil || strings.Contains(err.Error(), "already exists") {
				break
			}
			time.Sleep(time.Second)
		}
		<-ctx.Done()
		return nil
	}
}

// TestSlowController checks that a second controller that acts later than the end of the runs without faults is no
// failure.
func TestSlowController(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Second, 3 * time.Minute} {
		r := simtest.Explore(t, simtest.Seeds(40), func(w *simtest.World) {
			w.Controller("counter", once)
			w.Controller("slow", after(d))
		})
		if r.Failure != nil {
			t.Errorf("%s: %+v", d, r.Failure.Run.Failure)
		}
	}
}

// once creates a ConfigMap and tries again until it exists.
func once(ctx context.Context, config *rest.Config) error {
	return after(time.Millisecond)(ctx, config)
}

// TestUnsortedStatus checks that the order of a list is no difference: a restarted controller writes the same
// endpoints in another order.
func TestUnsortedStatus(t *testing.T) {
	endpoints := func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		all := client.DiscoveryV1().EndpointSlices("default")
		want := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}},
		}
		for err = errors.New("not written"); err != nil && ctx.Err() == nil; {
			var old *discoveryv1.EndpointSlice
			if old, err = all.Get(ctx, "web", metav1.GetOptions{}); err == nil {
				old.Endpoints = []discoveryv1.Endpoint{old.Endpoints[1], old.Endpoints[0]}
				_, err = all.Update(ctx, old, metav1.UpdateOptions{})
			} else {
				_, err = all.Create(ctx, want, metav1.CreateOptions{})
			}
			if err != nil {
				time.Sleep(time.Second)
			}
		}
		<-ctx.Done()
		return nil
	}
	r := simtest.Explore(t, simtest.Seeds(40), func(w *simtest.World) {
		w.Faults(fault.Crash("endpoints"), fault.Of(fault.KindError))
		w.Controller("endpoints", endpoints)
	})
	if r.Failure != nil || r.Systematic == 0 {
		t.Errorf("%d single faults, %+v", r.Systematic, r.Failure)
	}
}

// TestObservedGeneration checks that a controller that does not observe the newest spec is found, also if the final
// states may differ, and that the test can accept it.
func TestObservedGeneration(t *testing.T) {
	// It ignores objects that it has already observed before a restart.
	observer := func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		all := client.AppsV1().Deployments("default")
		for ctx.Err() == nil {
			stream, err := all.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				time.Sleep(time.Second)
				continue
			}
			for event := range stream.ResultChan() {
				d, ok := event.Object.(*appsv1.Deployment)
				if !ok || d.Status.ObservedGeneration == d.Generation || event.Type == "ADDED" && d.Status.ObservedGeneration > 0 {
					continue
				}
				d.Status.ObservedGeneration = d.Generation
				_, _ = all.UpdateStatus(ctx, d, metav1.UpdateOptions{})
			}
		}
		return nil
	}
	for _, disabled := range [][]string{nil, {"ObservedGeneration"}} {
		r := simtest.Explore(t, simtest.Seeds(40), func(w *simtest.World) {
			w.Faults(fault.Fault{Kind: fault.KindCrashBefore, Actor: "observer"})
			w.AllowDifferentOutcomes()
			w.Disable(disabled...)
			w.Controller("observer", observer)
			labels := map[string]string{"app": "web"}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}},
			}}
			w.Create(d)
			w.Settle()
			w.Get(d)
			d.Spec.Paused = true
			w.Update(d)
		})
		switch {
		case len(disabled) > 0 && r.Failure != nil:
			t.Errorf("disabled: %+v", r.Failure.Run.Failure)
		case len(disabled) > 0:
		case r.Failure == nil:
			t.Error("no failure was found")
		default:
			f := r.Failure.Run.Failure
			if f.Oracle != verdict.ObservedGenerationOracle || f.Resource != "deployments.apps" || f.Switch != `w.Disable("ObservedGeneration")` {
				t.Errorf("got %+v", f)
			}
		}
	}
}
