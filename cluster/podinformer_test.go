package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/ptr"
)

// TestPodInformer checks that each handler of a podInformer observes what it observes from client-go's informer: also one that is added after the start, one with
// a resync period, and one that is removed.
func TestPodInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := fcache.NewFakeControllerSource()
		defer source.Shutdown()
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		upstreams, ours := newObserved(source), newObserved(source)
		ours.informer = &podInformer{SharedIndexInformer: ours.informer}
		both := []*observed{upstreams, ours}
		source.Add(testPod("before", ""))
		var removed []cache.ResourceEventHandlerRegistration
		for _, o := range both {
			first := o.add(t, "first", cache.HandlerOptions{})
			o.add(t, "second", cache.HandlerOptions{})
			o.add(t, "resync", cache.HandlerOptions{ResyncPeriod: ptr.To(30 * time.Minute)})
			removed = append(removed, o.add(t, "removed", cache.HandlerOptions{}))
			if first.HasSynced() {
				t.Error("a handler has the pods before the start")
			}
			go o.informer.RunWithContext(ctx)
			synctest.Wait()
			if !first.HasSynced() {
				t.Error("a handler does not have the pods after the start")
			}
		}
		source.Add(testPod("a", "1"))
		source.Modify(testPod("a", "2"))
		source.Delete(testPod("before", "")) // the order of two pods in one list is random
		synctest.Wait()
		for i, o := range both {
			if err := o.informer.RemoveEventHandler(removed[i]); err != nil {
				t.Error(err)
			}
			late := o.add(t, "late", cache.HandlerOptions{})
			synctest.Wait()
			if !late.HasSynced() {
				t.Error("a handler that was added late does not have the pods")
			}
		}
		source.Modify(testPod("a", "3"))
		synctest.Wait()
		time.Sleep(70 * time.Minute) // virtual: one resync, and two of the handler with half the period
		synctest.Wait()
		for name, want := range upstreams.events {
			if got := ours.events[name]; !slices.Equal(*got, *want) {
				t.Errorf("handler %s observed %q; from client-go's informer %q", name, *got, *want)
			}
			if minimum := map[string]int{"first": 6, "second": 6, "resync": 7, "removed": 4, "late": 3}[name]; len(*want) < minimum {
				t.Errorf("handler %s observed %q, expected %d events", name, *want, minimum)
			}
		}
	})
}

// observed is an informer with handlers that record their events.
type observed struct {
	informer cache.SharedIndexInformer
	events   map[string]*[]string // by the name of the handler
}

func newObserved(source cache.ListerWatcher) *observed {
	return &observed{cache.NewSharedIndexInformer(source, &corev1.Pod{}, time.Hour, cache.Indexers{}), map[string]*[]string{}}
}

func (o *observed) add(t *testing.T, name string, options cache.HandlerOptions) cache.ResourceEventHandlerRegistration {
	t.Helper()
	events := new([]string)
	o.events[name] = events
	record := func(format string, args ...any) { *events = append(*events, fmt.Sprintf(format, args...)) }
	r, err := o.informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { record("add %s (first list: %v)", podText(obj), initial) },
		UpdateFunc: func(old, now any) { record("update %s to %s", podText(old), podText(now)) },
		DeleteFunc: func(obj any) { record("delete %s", podText(obj)) },
	}, options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func testPod(name, image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
}

func podText(obj any) string {
	p := obj.(*corev1.Pod)
	return p.Name + "/" + p.Spec.Containers[0].Image
}

// BenchmarkPodHandlers measures one event of a pod for 13 handlers, as many as a podInformer of kube-controller-manager has, with client-go's informer and with ours.
func BenchmarkPodHandlers(b *testing.B) {
	for _, c := range []struct {
		name string
		of   func(cache.SharedIndexInformer) cache.SharedIndexInformer
	}{
		{"client-go", func(i cache.SharedIndexInformer) cache.SharedIndexInformer { return i }},
		{"ours", func(i cache.SharedIndexInformer) cache.SharedIndexInformer {
			return &podInformer{SharedIndexInformer: i}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			source := fcache.NewFakeControllerSource()
			defer source.Shutdown()
			i := c.of(cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{}))
			const handlers = 13
			observed := make(chan struct{}, handlers)
			for range handlers {
				if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { observed <- struct{}{} }, UpdateFunc: func(any, any) { observed <- struct{}{} }}); err != nil {
					b.Fatal(err)
				}
			}
			go i.RunWithContext(b.Context())
			source.Add(testPod("a", ""))
			for range handlers {
				<-observed
			}
			for b.Loop() {
				source.Modify(testPod("a", "")) // the source sets its resourceVersion
				for range handlers {
					<-observed
				}
			}
		})
	}
}

// TestPodFactory checks that all readers of a factory get one podInformer, and that none exists if there is no reader.
func TestPodFactory(t *testing.T) {
	for name, first := range map[string]func(informers.SharedInformerFactory) cache.SharedIndexInformer{
		"typed": func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Core().V1().Pods().Informer()
		},
		"by resource": func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			i, err := f.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
			if err != nil {
				t.Fatal(err)
			}
			return i.Informer()
		},
	} {
		f := podFactory{informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
		f.Core().V1().Nodes().Informer()
		f.Start(t.Context().Done())
		if started := f.WaitForCacheSync(t.Context().Done()); len(started) != 1 {
			t.Errorf("%s: started %v, expected nodes only", name, started)
		}
		i := first(f)
		if _, ok := i.(*podInformer); !ok || i != f.Core().V1().Pods().Informer() {
			t.Errorf("%s: the factory has an informer of type %T, and another of pods", name, i)
		}
	}
}

// TestSlowDeletes checks that a handler of deletes only, which sends a request in kube-controller-manager, delays no other.
func TestSlowDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := fcache.NewFakeControllerSource()
		defer source.Shutdown()
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		o := newObserved(source)
		o.informer = &podInformer{SharedIndexInformer: o.informer}
		answer := make(chan struct{})
		if _, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { <-answer }}); err != nil {
			t.Fatal(err)
		}
		o.add(t, "other", cache.HandlerOptions{})
		go o.informer.RunWithContext(ctx)
		synctest.Wait()
		source.Add(testPod("a", ""))
		source.Delete(testPod("a", ""))
		synctest.Wait()
		if got := *o.events["other"]; len(got) != 2 {
			t.Errorf("the other handler observed %q while one waited, expected an add and a delete", got)
		}
		close(answer)
	})
}
