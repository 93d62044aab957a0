package podcache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// maxChanges is how many changes a Cache keeps, for readers that start after a given revision.
// Readers that start with all pods need none.
const maxChanges = 1024

// Cache watches the pods of a cluster for all readers in one process. Pods have no managed fields,
// and equal parts of pods of one owner share memory. Readers must not modify pods, as with any
// client-go cache.
type Cache struct {
	// Pace is the pause between two events that reach a reader together. Tests set it before Run, so
	// that a controller acts on each intermediate state of its informer's store.
	Pace time.Duration

	reflector *cache.Reflector
	shared    bool // whether the source's pods share their parts with other readers
	interner  Interner
	wanted    chan struct{} // closed by the first reader
	want      sync.Once
	synced    chan struct{}

	mu       sync.Mutex
	pods     map[string]*corev1.Pod // by namespace/name
	revision uint64
	changes  []change // the last changes, in order
	since    uint64   // changes contains every change after this revision
	readers  map[*watcher]struct{}
	relist   context.CancelFunc // stops the reflector, so that it lists again
}

// change is one change of a pod: old is nil if the pod is new, and now is the last state if it was
// deleted.
type change struct {
	revision uint64
	old, now *corev1.Pod
	deleted  bool
}

// New creates a Cache that reads with the credentials of config. It sends no request before Run. It returns an error if client-go's
// stores do not report their revisions (reconcile.RequireRevisions).
func New(config *rest.Config) (*Cache, error) {
	c := Unconnected()
	return c, c.Connect(config)
}

// Unconnected creates a Cache whose readers wait until Connect and Run were called: the API server itself is one of its readers.
func Unconnected() *Cache {
	return &Cache{pods: map[string]*corev1.Pod{}, readers: map[*watcher]struct{}{}, wanted: make(chan struct{}), synced: make(chan struct{})}
}

// Connect makes an unconnected Cache read with the credentials of config. It is called once, before Run. Its errors are those of New.
func (c *Cache) Connect(config *rest.Config) error {
	if err := requireRevisions(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create pod cache: %w", err)
	}
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			reconcile.Consistent(&o)
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: pods.Watch,
	}, client)
	c.read(source)
	return nil
}

// ConnectTo makes an unconnected Cache read from a source in this process, whose pods share their parts with other readers: the Cache modifies only the pods
// themselves. It is called once, before Run. Its errors are those of New.
func (c *Cache) ConnectTo(source cache.ListerWatcher) error {
	if err := requireRevisions(); err != nil {
		return err
	}
	c.shared = true
	c.read(source)
	return nil
}

func (c *Cache) read(source cache.ListerWatcher) {
	c.reflector = cache.NewReflectorWithOptions(source, &corev1.Pod{}, store{c}, cache.ReflectorOptions{Name: "shared pod cache"})
}

// prepare drops the managed fields of a new pod and lets it share memory with earlier ones, if its source does not.
func (c *Cache) prepare(p *corev1.Pod) {
	if c.shared {
		p.ManagedFields = nil
		return
	}
	c.interner.Intern(p)
}

func requireRevisions() error {
	if err := reconcile.RequireRevisions(); err != nil {
		return fmt.Errorf("create pod cache: %w", err)
	}
	return nil
}

// Run watches pods until ctx ends. It starts with the first reader's first request.
func (c *Cache) Run(ctx context.Context) {
	select {
	case <-c.wanted:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		run, cancel := context.WithCancel(ctx)
		c.mu.Lock()
		c.relist = cancel
		c.mu.Unlock()
		c.reflector.RunWithContext(run)
		cancel()
	}
}

// Relist makes the cache list all pods again. A controller whose audit has found a wrong pod calls
// it. It does nothing on a nil Cache.
func (c *Cache) Relist() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.relist != nil {
		c.relist()
	}
}

// ready waits until the cache has its first list.
func (c *Cache) ready(ctx context.Context) error {
	c.want.Do(func() { close(c.wanted) })
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pods returns the pods of a namespace, or of all namespaces if it is empty, in any order. The first reader starts the cache.
func (c *Cache) Pods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var pods []*corev1.Pod
	for _, p := range c.pods {
		if namespace == metav1.NamespaceAll || p.Namespace == namespace {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// Pod returns a pod, nil if the cache does not contain it. The first reader starts the cache.
func (c *Cache) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[namespace+"/"+name], nil
}

func (c *Cache) list(ctx context.Context, keep func(*corev1.Pod) bool) (*corev1.PodList, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: formatRevision(c.revision)}}
	pods := slices.Collect(maps.Values(c.pods))
	c.mu.Unlock()
	for _, p := range pods {
		if keep(p) {
			list.Items = append(list.Items, *p)
		}
	}
	return list, nil
}

// watch starts with all pods if o asks for that, otherwise after the revision in o.
func (c *Cache) watch(ctx context.Context, keep func(*corev1.Pod) bool, o metav1.ListOptions) (watch.Interface, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := newWatcher(c, keep)
	if initial := ptr.Deref(o.SendInitialEvents, false); initial || o.ResourceVersion == "" || o.ResourceVersion == "0" {
		for _, p := range c.pods {
			if keep(p) {
				w.queue = append(w.queue, watch.Event{Type: watch.Added, Object: p})
			}
		}
		if initial {
			w.queue = append(w.queue, watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: formatRevision(c.revision), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}}})
		}
	} else {
		after, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest("watch pods: resourceVersion " + o.ResourceVersion + " is not a number")
		}
		if after < c.since || after > c.revision {
			return nil, expired(after)
		}
		from, _ := slices.BinarySearchFunc(c.changes, after+1, func(c change, revision uint64) int { return int(int64(c.revision - revision)) })
		for _, ch := range c.changes[from:] {
			if e, ok := w.event(ch); ok {
				w.queue = append(w.queue, e)
			}
		}
	}
	c.readers[w] = struct{}{}
	w.start(ctx)
	return w, nil
}

func expired(revision uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("watch pods from resourceVersion %d: the pod cache does not have all changes after it", revision))
}

func (c *Cache) removeReader(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.readers, w)
}

// store is what the reflector of a Cache writes to.
type store struct{ *Cache }

// Add implements cache.ReflectorStore.
func (s store) Add(obj any) error { return s.apply(obj.(*corev1.Pod), false) }

// Update implements cache.ReflectorStore.
func (s store) Update(obj any) error { return s.apply(obj.(*corev1.Pod), false) }

// Delete implements cache.ReflectorStore.
func (s store) Delete(obj any) error { return s.apply(obj.(*corev1.Pod), true) }

// Resync implements cache.ReflectorStore.
func (s store) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore.
func (s store) Bookmark(revision string) error {
	at, err := strconv.ParseUint(revision, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && at > s.revision {
		s.revision = at
		s.sendBookmarks()
	}
	return err
}

// sendBookmarks sends the revision of the cache to all readers.
func (c *Cache) sendBookmarks() {
	for w := range c.readers {
		w.enqueue(watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: formatRevision(c.revision)}}})
	}
}

// Transformer implements cache.TransformingStore: pods are interned while the first list is decoded.
func (s store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			s.prepare(p)
		}
		return obj, nil
	}
}

// Replace implements cache.ReflectorStore: the reflector calls it for the first list and each time it
// lists again. A reader that would observe a difference gets an error that its revision has expired,
// as from the API: it lists all pods and replaces its store at once. If it got the difference as
// single events instead, its store would report a revision before it has all writes up to it, because
// an object's last revision says nothing about the revisions in between.
func (s store) Replace(list []any, revision string) error {
	at, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return err
	}
	pods := make(map[string]*corev1.Pod, len(list))
	for _, obj := range list {
		p := obj.(*corev1.Pod)
		s.prepare(p)
		pods[podKey(p)] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := difference(s.pods, pods)
	since := at
	if at == s.revision && len(changes) > 0 {
		since++ // a reader at this revision may have either content
	}
	for w := range s.readers {
		if at < s.revision || slices.ContainsFunc(changes, w.observes) {
			w.expire(s.revision)
			delete(s.readers, w)
		}
	}
	s.pods, s.revision, s.changes, s.since = pods, at, nil, since
	s.sendBookmarks()
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
	return nil
}

// difference returns the changes from old to now, in any order.
func difference(old, now map[string]*corev1.Pod) (changes []change) {
	for key, p := range old {
		if now[key] == nil {
			changes = append(changes, change{old: p, now: p, deleted: true})
		}
	}
	for key, p := range now {
		if before := old[key]; before == nil || before.UID != p.UID || before.ResourceVersion != p.ResourceVersion {
			changes = append(changes, change{old: before, now: p})
		}
	}
	return changes
}

// apply stores one change and sends it to the readers.
func (s store) apply(p *corev1.Pod, deleted bool) error {
	at, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	s.prepare(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := podKey(p)
	c := change{revision: at, old: s.pods[key], now: p, deleted: deleted}
	if deleted {
		delete(s.pods, key)
	} else {
		s.pods[key] = p
	}
	s.revision = max(s.revision, at)
	if len(s.changes) >= 2*maxChanges {
		s.since = s.changes[maxChanges-1].revision
		s.changes = slices.Clone(s.changes[maxChanges:])
	}
	s.changes = append(s.changes, c)
	for w := range s.readers {
		w.send(c)
	}
	return nil
}

func podKey(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

func formatRevision(revision uint64) string { return strconv.FormatUint(revision, 10) }
