package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// modelCache is a watch cache of ConfigMaps that lists objects and ends watches. The test writes to it while
// the goroutine of a watch starts its next one.
type modelCache struct {
	storage.Interface
	rt      *rapid.T
	mu      sync.Mutex     // guards the fields below
	objects map[string]int // the revision of each object
	history []watch.Event  // event i has revision i+1
	live    map[chan watch.Event]bool
}

func (m *modelCache) write(name string, deleted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rev := len(m.history) + 1
	e := watch.Event{Type: watch.Modified, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(rev)}}}
	switch _, there := m.objects[name]; {
	case deleted && !there:
		return
	case deleted:
		e.Type = watch.Deleted
		delete(m.objects, name)
	default:
		if !there {
			e.Type = watch.Added
		}
		m.objects[name] = rev
	}
	m.history = append(m.history, e)
	for source := range m.live {
		source <- e
	}
}

// cut ends all watches, as a cache does that could not serve them in time.
func (m *modelCache) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for source := range m.live {
		close(source)
	}
	clear(m.live)
}

func (m *modelCache) GetList(_ context.Context, _ string, _ storage.ListOptions, list runtime.Object) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := list.(*corev1.ConfigMapList)
	l.ResourceVersion = strconv.Itoa(len(m.history))
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		l.Items = append(l.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(m.objects[name])}})
	}
	return nil
}

func (m *modelCache) GetCurrentResourceVersion(context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.history)), nil
}

func (m *modelCache) Watch(_ context.Context, _ string, o storage.ListOptions) (watch.Interface, error) {
	rev, err := strconv.Atoi(o.ResourceVersion)
	if err != nil || o.SendInitialEvents != nil {
		return nil, fmt.Errorf("watch from %q, initial events %v: not from a revision", o.ResourceVersion, o.SendInitialEvents)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	source := make(chan watch.Event, 1000)
	for _, e := range m.history[rev:] {
		source <- e
	}
	m.live[source] = true
	return watch.NewProxyWatcher(source), nil
}

// modelReader models client-go's reflector: it watches from the last revision that it has observed, or from
// the start if it has not observed the end of the initial events.
type modelReader struct {
	rt    *rapid.T
	s     bufferedStorage
	w     watch.Interface
	known map[string]int
	fresh map[string]int // the objects of the initial events, until their end
	at    string         // "": nothing is known
	read  int
}

func (r *modelReader) open() {
	o := storage.ListOptions{ResourceVersion: r.at, Predicate: storage.Everything, Recursive: true}
	o.Predicate.AllowWatchBookmarks = true
	if r.at == "" {
		o.SendInitialEvents = ptr.To(true)
		r.fresh = map[string]int{}
	}
	w, err := r.s.Watch(context.Background(), "/configmaps/", o)
	if err != nil {
		r.rt.Fatal(err)
	}
	r.w, r.read = w, 0
}

// take reads one event if one is available; more is false if there was no event.
func (r *modelReader) take() (more bool) {
	synctest.Wait()
	var e watch.Event
	var ok bool
	select {
	case e, ok = <-r.w.ResultChan():
	default:
		return false
	}
	if !ok {
		if r.at == "" {
			r.rt.Fatalf("the watch ended after %d events, before the end of its initial events: its reader starts again from nothing", r.read)
		}
		r.open()
		return true
	}
	r.read++
	m := e.Object.(*corev1.ConfigMap)
	rev, _ := strconv.Atoi(m.ResourceVersion)
	to := r.known
	if r.at == "" {
		to = r.fresh
	}
	switch e.Type {
	case watch.Bookmark:
		if m.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			r.rt.Fatalf("a bookmark in the place of the end of the initial events: %v", m)
		}
		r.known, r.fresh, r.at = r.fresh, nil, m.ResourceVersion
		return true
	case watch.Deleted:
		delete(to, m.Name)
	default:
		to[m.Name] = rev
	}
	if r.at != "" {
		if before, _ := strconv.Atoi(r.at); rev != before+1 {
			r.rt.Fatalf("revision %d came after %d", rev, before)
		}
		r.at = m.ResourceVersion
	}
	return true
}

// TestBufferedWatchProperty: for any speed of the reader, any size of its buffer, and any times at which the
// cache ends its watches, a watch with initial objects completes its start, each later event is delivered
// once and in order, and finally the reader has the current objects.
func TestBufferedWatchProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			m := &modelCache{rt: rt, objects: map[string]int{}, live: map[chan watch.Event]bool{}}
			s := bufferedStorage{
				m, func() runtime.Object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} },
				rapid.IntRange(1, 6).Draw(rt, "limit"), rapid.IntRange(0, 3).Draw(rt, "ready"),
			}
			for i := range rapid.IntRange(0, 12).Draw(rt, "objects") {
				m.write(fmt.Sprint(i), false)
			}
			r := &modelReader{rt: rt, s: s, known: map[string]int{}}
			r.open()
			defer func() { r.w.Stop() }()
			for range rapid.IntRange(0, 60).Draw(rt, "steps") {
				switch rapid.IntRange(0, 5).Draw(rt, "step") {
				case 0, 1:
					r.take()
				case 2, 3:
					m.write(fmt.Sprint(rapid.IntRange(0, 15).Draw(rt, "name")), rapid.Bool().Draw(rt, "deleted"))
				case 4:
					m.cut()
				case 5:
					synctest.Wait() // the buffer accepts every event
				}
			}
			for r.take() {
			}
			if !maps.Equal(r.known, m.objects) {
				rt.Fatalf("the reader knows %v, there is %v", r.known, m.objects)
			}
		})
	})
}
