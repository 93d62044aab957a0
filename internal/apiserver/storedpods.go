package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
)

// storedPods lists and watches all pods in the store, as the watch cache does. A reader may set the fields of a pod, but not modify what they refer to: the store
// shares it with all its readers.
type storedPods struct{ storage.Interface }

// Pods returns a source of the pods of the server that was started last, for a reader in this process. It sends no requests: nothing is encoded and decoded, and
// the pods share their parts with the stored objects. It returns an error if no server was started.
func (m Memory) Pods() (cache.ListerWatcher, error) {
	s := m.Worlds.Published(podResource)
	if s == nil {
		return nil, errors.New("read pods from the store: no server has opened it")
	}
	p := storedPods{s}
	return podSource{&cache.ListWatch{ListWithContextFunc: p.list, WatchFuncWithContext: p.watch}}, nil
}

// podSource is the cache.ListerWatcher of storedPods.
type podSource struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported makes a reflector begin with a list if the feature gate WatchList is off: the store then ignores that a watch shall
// begin with the existing objects, as etcd3's does.
func (podSource) IsWatchListSemanticsUnSupported() bool {
	return !utilfeature.DefaultFeatureGate.Enabled(features.WatchList)
}

var podResource = schema.GroupResource{Resource: "pods"}

// podsKey is the directory of pods in the store, without the prefix.
const podsKey = "/pods/"

func (s storedPods) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	stored := &core.PodList{}
	options := storage.ListOptions{ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch, Recursive: true, Predicate: storage.Everything}
	if err := s.GetList(ctx, podsKey, options, stored); err != nil {
		return nil, err
	}
	list := &corev1.PodList{ListMeta: stored.ListMeta, Items: make([]corev1.Pod, len(stored.Items))}
	for i := range stored.Items {
		if err := readerPod(&stored.Items[i], &list.Items[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s storedPods) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	predicate := storage.Everything
	predicate.AllowWatchBookmarks = o.AllowWatchBookmarks
	// The store gives a reader that asks for its progress the shared objects themselves.
	w, err := s.Watch(ctx, podsKey, storage.ListOptions{
		ResourceVersion: o.ResourceVersion, SendInitialEvents: o.SendInitialEvents, Recursive: true, Predicate: predicate, ProgressNotify: true,
	})
	if err != nil {
		return nil, err
	}
	r := &podWatch{stored: w, result: make(chan watch.Event, cap(w.ResultChan())), stop: make(chan struct{})}
	go r.run()
	return r, nil
}

// podWatch is a watch of stored pods in the version of clients.
type podWatch struct {
	stored watch.Interface
	result chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

// ResultChan implements watch.Interface.
func (w *podWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *podWatch) Stop() {
	w.once.Do(func() {
		close(w.stop)
		w.stored.Stop()
	})
}

// run sends events until the watch of the store ends or the reader stops.
func (w *podWatch) run() {
	defer close(w.result)
	for e := range w.stored.ResultChan() {
		select {
		case w.result <- readerEvent(e):
		case <-w.stop:
			return
		}
	}
}

// readerEvent returns an event of the store with its pod in the version of clients.
func readerEvent(e watch.Event) watch.Event {
	stored, ok := e.Object.(*core.Pod)
	if !ok {
		return e // an error
	}
	p := &corev1.Pod{}
	if err := readerPod(stored, p); err != nil {
		status := apierrors.NewInternalError(err).Status()
		return watch.Event{Type: watch.Error, Object: &status}
	}
	return watch.Event{Type: e.Type, Object: p}
}

// readerPod sets out to a stored pod in the version of clients. It shares the parts of stored.
func readerPod(stored *core.Pod, out *corev1.Pod) error {
	if err := legacyscheme.Scheme.Convert(stored, out, nil); err != nil {
		return fmt.Errorf("read pod %s/%s from the store: %w", stored.Namespace, stored.Name, err)
	}
	return nil
}
