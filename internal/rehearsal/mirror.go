package rehearsal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// mirror follows the objects of a cluster with one watch per resource, and returns the writes in the order of
// their revisions.
//
// The watches of two resources are not ordered with one another. So the mirror delays each write for
// orderDelay, and sorts the writes that arrive in the meantime. On a busy machine a watch can be later than that:
// its writes are returned after newer ones of other resources, and complete waits for them.
type mirror struct {
	now func() time.Time

	mu        sync.Mutex
	resources map[schema.GroupResource]schema.GroupVersionResource
	clients   map[schema.GroupResource]dynamic.ResourceInterface
	newest    map[schema.GroupResource]int64 // the highest revision observed, by resource
	objects   map[string]store.KV
	revision  int64 // the highest observed
	pending   []pendingWrite
	ordered   []store.Change
	dropped   int64         // number of writes removed from the front of ordered
	changed   chan struct{} // closed at the next change
	err       error
}

// pendingWrite is an observed write and the time of its arrival.
type pendingWrite struct {
	store.Change
	at time.Time
}

// orderDelay is how long the mirror delays a write before it returns it.
const orderDelay = 100 * time.Millisecond

var _ source = (*mirror)(nil)

func newMirror(now func() time.Time) *mirror {
	return &mirror{
		now: now, resources: map[schema.GroupResource]schema.GroupVersionResource{}, clients: map[schema.GroupResource]dynamic.ResourceInterface{},
		newest: map[schema.GroupResource]int64{}, objects: map[string]store.KV{}, changed: make(chan struct{}),
	}
}

// follow lists a resource and watches it until following is done. The listed objects have no order.
func (m *mirror) follow(ctx, following context.Context, gvr schema.GroupVersionResource, client dynamic.ResourceInterface) error {
	resource := gvr.GroupResource()
	list, err := listAll(ctx, client)
	if err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	w, err := watchtools.NewRetryWatcherWithContext(following, list.GetResourceVersion(), watched{client})
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	m.mu.Lock()
	m.resources[resource], m.clients[resource] = gvr, client
	for i := range list.Items {
		m.observe(resource, &list.Items[i], false)
	}
	m.mu.Unlock()
	go m.receive(following, resource, w)
	return nil
}

// pageSize is the number of objects per list request.
const pageSize = 500

// listAll lists a resource page by page. It starts again if the continue token expires.
func listAll(ctx context.Context, client dynamic.ResourceInterface) (*unstructured.UnstructuredList, error) {
	const tries = 3
	for try := 1; ; try++ {
		all, err := client.List(ctx, metav1.ListOptions{Limit: pageSize})
		for err == nil && all.GetContinue() != "" {
			var more *unstructured.UnstructuredList
			if more, err = client.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: all.GetContinue()}); err == nil {
				all.Items = append(all.Items, more.Items...)
				all.SetContinue(more.GetContinue())
			}
		}
		if err == nil || !apierrors.IsResourceExpired(err) || try == tries {
			return all, err
		}
	}
}

// watched adapts a client to RetryWatcher.
type watched struct{ client dynamic.ResourceInterface }

// WatchWithContext implements cache.WatcherWithContext.
func (w watched) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return w.client.Watch(ctx, o)
}

var _ cache.WatcherWithContext = watched{}

// receive handles the events of a watch until it ends.
func (m *mirror) receive(ctx context.Context, resource schema.GroupResource, w watch.Interface) {
	defer w.Stop()
	for e := range w.ResultChan() {
		m.handle(resource, e)
	}
	if ctx.Err() == nil {
		m.fail(fmt.Errorf("watch %s: the watch ended", resource))
	}
}

func (m *mirror) handle(resource schema.GroupResource, e watch.Event) {
	switch o := e.Object.(type) {
	case *unstructured.Unstructured:
		if e.Type == watch.Bookmark {
			return
		}
		m.mu.Lock()
		m.observe(resource, o, e.Type == watch.Deleted)
		m.mu.Unlock()
	case *metav1.Status:
		m.fail(fmt.Errorf("watch %s: the watch ended: %s", resource, o.Message))
	}
}

// fail records that the mirror no longer knows the whole state.
func (m *mirror) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = cmp.Or(m.err, err)
	m.signal()
}

// observe records the state of an object at a revision. The caller holds the lock.
func (m *mirror) observe(resource schema.GroupResource, o *unstructured.Unstructured, deleted bool) {
	revision, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		m.err = cmp.Or(m.err, fmt.Errorf("%s %s has resource version %q: want a number", resource, o.GetName(), o.GetResourceVersion()))
		return
	}
	m.newest[resource] = max(m.newest[resource], revision)
	key := keyOf(resource, o.GetNamespace(), o.GetName())
	if had, ok := m.objects[key]; ok && had.ModRevision >= revision {
		return
	}
	m.revision = max(m.revision, revision)
	c := store.Change{Key: key, Revision: revision}
	if deleted {
		delete(m.objects, key)
	} else {
		if c.Value, err = o.MarshalJSON(); err != nil {
			m.err = cmp.Or(m.err, fmt.Errorf("%s %s: %w", resource, o.GetName(), err))
			return
		}
		m.objects[key] = store.KV{Key: key, Value: c.Value, ModRevision: revision}
	}
	m.pending = append(m.pending, pendingWrite{c, m.now()})
	m.signal()
}

// signal wakes the goroutines that wait for a change. The caller holds the lock.
func (m *mirror) signal() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// keyOf returns the key of an object.
func keyOf(resource schema.GroupResource, namespace, name string) string {
	key := directoryOf(resource)
	if namespace != "" {
		key += namespace + "/"
	}
	return key + name
}

func directoryOf(resource schema.GroupResource) string { return "/" + resource.String() + "/" }

// current implements source. It drops all earlier writes.
func (m *mirror) current() (kvs []store.KV, revision, cursor int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped += int64(len(m.ordered) + len(m.pending))
	m.ordered, m.pending = nil, nil
	return slices.Collect(maps.Values(m.objects)), m.revision, m.dropped, m.err
}

// changes implements source. A write that its watch delivers late comes after newer writes of other resources.
func (m *mirror) changes(cursor int64) (changes []store.Change, next int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orderPending()
	next = m.dropped + int64(len(m.ordered))
	if cursor < m.dropped {
		return nil, next, store.ErrCompacted
	}
	return m.ordered[cursor-m.dropped:], next, m.err
}

// orderPending moves the writes that have waited for orderDelay, and all older ones, to ordered. The caller
// holds the lock.
func (m *mirror) orderPending() {
	newest := int64(-1)
	for _, a := range m.pending {
		if m.now().Sub(a.at) >= orderDelay {
			newest = max(newest, a.Revision)
		}
	}
	slices.SortStableFunc(m.pending, func(a, b pendingWrite) int { return cmp.Compare(a.Revision, b.Revision) })
	for len(m.pending) > 0 && m.pending[0].Revision <= newest {
		m.ordered = append(m.ordered, m.pending[0].Change)
		m.pending = m.pending[1:]
	}
}

// Directory implements verdict.Resources.
func (m *mirror) Directory(resource schema.GroupResource) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resources[resource].Empty() {
		return ""
	}
	return directoryOf(resource)
}

// ResourceOf implements verdict.Resources.
func (m *mirror) ResourceOf(key string) (schema.GroupResource, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	resource := schema.ParseGroupResource(name)
	return resource, m.Directory(resource) != ""
}

// version returns the version in which the mirror follows a resource.
func (m *mirror) version(resource schema.GroupResource) schema.GroupVersionResource {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resources[resource]
}

// has reports whether the cluster has an object.
func (m *mirror) has(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.objects[key]
	return ok
}

// object returns an object of the cluster as JSON, or nil.
func (m *mirror) object(key string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[key].Value
}

// catchUpTimeout is how long catchUp waits for a revision. Some resources are not watched, so the revision
// may never arrive.
const catchUpTimeout = time.Second

// catchUp waits until changes returns all writes up to a revision.
func (m *mirror) catchUp(ctx context.Context, revision int64) {
	limit := time.NewTimer(catchUpTimeout)
	defer limit.Stop()
	for {
		m.mu.Lock()
		moved, there := m.changed, m.revision >= revision
		m.mu.Unlock()
		if there {
			break
		}
		select {
		case <-moved:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
	select {
	case <-time.After(orderDelay):
	case <-ctx.Done():
	}
}

// snapshot returns the current objects and a channel that is closed at the next change.
func (m *mirror) snapshot() (held map[string]store.KV, moved <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.objects), m.changed, m.err
}
