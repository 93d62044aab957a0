package stages

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

// mostPast is how many changes a feed remembers, for a reader that begins after a revision
// that it names. Those that begin with all pods need none.
const mostPast = 1024

// PodFeed reads the pods of a cluster for all parts of one process: they are watched, decoded
// and kept once, and a reader is handed the pod that all others have. So nobody may write to
// one, which is what client-go says of caches anyway. Pods have no managed fields, and what
// is equal in pods of one owner is one in memory.
//
// A reader sees what it would see of the API: the pods there are, then each change in its
// order. When the feed has missed something and lists again, readers that it concerns list
// again too.
type PodFeed struct {
	// Pace, if it is set before Run, is how long readers wait between two events that come
	// together. Tests set it: whoever reads a store then sees every state between two events.
	Pace time.Duration

	reflector *cache.Reflector
	sharer    sharer
	wanted    chan struct{} // closed by the first reader
	want      sync.Once
	synced    chan struct{}

	mu       sync.Mutex
	pods     map[string]*corev1.Pod // by namespace/name
	revision uint64
	past     []podChange
	since    uint64 // past has all changes after it
	readers  map[*podWatch]struct{}
	again    context.CancelFunc // has the reflector list anew
}

// podChange is one change of a pod: what was there before, nil for a new one, and what is
// there now or, deleted, was there last.
type podChange struct {
	revision uint64
	was, is  *corev1.Pod
	deleted  bool
}

// NewPodFeed creates a feed that reads as the user of config. It sends nothing before Run. It is an
// error if caches do not report their revisions (shell.RequireRevisions).
func NewPodFeed(config *rest.Config) (*PodFeed, error) {
	if err := reconcile.RequireRevisions(); err != nil {
		return nil, fmt.Errorf("create pod feed: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create pod feed: %w", err)
	}
	f := newPodFeed()
	all := client.CoreV1().Pods(metav1.NamespaceAll)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, consistent(o))
		},
		WatchFuncWithContext: all.Watch,
	}, client)
	f.reflector = cache.NewReflectorWithOptions(source, &corev1.Pod{}, feedStore{f}, cache.ReflectorOptions{Name: "pods for all parts"})
	return f, nil
}

func newPodFeed() *PodFeed {
	return &PodFeed{pods: map[string]*corev1.Pod{}, readers: map[*podWatch]struct{}{}, wanted: make(chan struct{}), synced: make(chan struct{})}
}

// Run reads until ctx ends, from the moment that anybody wants to know.
func (f *PodFeed) Run(ctx context.Context) {
	select {
	case <-f.wanted:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		once, cancel := context.WithCancel(ctx)
		f.mu.Lock()
		f.again = cancel
		f.mu.Unlock()
		f.reflector.RunWithContext(once)
		cancel()
	}
}

// Relist has the feed, if there is one, list all pods anew, for somebody who has found it wrong.
func (f *PodFeed) Relist() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.again != nil {
		f.again()
	}
}

// ready waits until the feed knows the pods there are.
func (f *PodFeed) ready(ctx context.Context) error {
	f.want.Do(func() { close(f.wanted) })
	select {
	case <-f.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *PodFeed) list(ctx context.Context, keep func(*corev1.Pod) bool) (*corev1.PodList, error) {
	if err := f.ready(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: revisionText(f.revision)}}
	pods := slices.Collect(maps.Values(f.pods))
	f.mu.Unlock()
	for _, p := range pods {
		if keep(p) {
			list.Items = append(list.Items, *p)
		}
	}
	return list, nil
}

// watch begins with all pods where that is asked for, and otherwise after a revision.
func (f *PodFeed) watch(ctx context.Context, keep func(*corev1.Pod) bool, o metav1.ListOptions) (watch.Interface, error) {
	if err := f.ready(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := newPodWatch(f, keep)
	if told := ptr.Deref(o.SendInitialEvents, false); told || o.ResourceVersion == "" || o.ResourceVersion == "0" {
		for _, p := range f.pods {
			if keep(p) {
				w.queue = append(w.queue, watch.Event{Type: watch.Added, Object: p})
			}
		}
		if told {
			w.queue = append(w.queue, watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: revisionText(f.revision), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}}})
		}
	} else {
		after, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest("resourceVersion " + o.ResourceVersion + " is not a number")
		}
		if after < f.since || after > f.revision {
			return nil, expired(after)
		}
		from, _ := slices.BinarySearchFunc(f.past, after+1, func(c podChange, revision uint64) int { return int(int64(c.revision - revision)) })
		for _, c := range f.past[from:] {
			if e, ok := w.event(c); ok {
				w.queue = append(w.queue, e)
			}
		}
	}
	f.readers[w] = struct{}{}
	w.begin(ctx)
	return w, nil
}

func expired(revision uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("watch pods from resourceVersion %d: the feed does not have all changes after it", revision))
}

func (f *PodFeed) forget(w *podWatch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, w)
}

// feedStore is the side of the feed that its reflector writes to.
type feedStore struct{ *PodFeed }

// Add implements cache.ReflectorStore.
func (f feedStore) Add(obj any) error { return f.change(obj.(*corev1.Pod), false) }

// Update implements cache.ReflectorStore.
func (f feedStore) Update(obj any) error { return f.change(obj.(*corev1.Pod), false) }

// Delete implements cache.ReflectorStore.
func (f feedStore) Delete(obj any) error { return f.change(obj.(*corev1.Pod), true) }

// Resync implements cache.ReflectorStore.
func (f feedStore) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore.
func (f feedStore) Bookmark(revision string) error {
	at, err := strconv.ParseUint(revision, 10, 64)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && at > f.revision {
		f.revision = at
		f.bookmark()
	}
	return err
}

// bookmark tells readers how far the feed has come.
func (f *PodFeed) bookmark() {
	for w := range f.readers {
		w.queued(watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: revisionText(f.revision)}}})
	}
}

// Transformer implements cache.TransformingStore: a first list is not kept as it comes.
func (f feedStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return f.smaller(obj.(*corev1.Pod)), nil }
}

// Replace implements cache.ReflectorStore. It is called at the beginning and when the feed
// has missed something. A reader that would see a difference gets an error that its revision
// has expired, as from the API: it lists all pods and replaces its store at once. Were it to
// see the difference as single events, its store would report a revision before it has all
// writes up to it, because an object's last revision says nothing of the ones in between.
func (f feedStore) Replace(list []any, revision string) error {
	at, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return err
	}
	pods := make(map[string]*corev1.Pod, len(list))
	for _, obj := range list {
		p := f.smaller(obj.(*corev1.Pod))
		pods[podKey(p)] = p
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := difference(f.pods, pods)
	since := at
	if at == f.revision && len(changes) > 0 {
		since++ // a reader at this revision may have either content
	}
	for w := range f.readers {
		if at < f.revision || slices.ContainsFunc(changes, w.sees) {
			w.expire(f.revision)
			delete(f.readers, w)
		}
	}
	f.pods, f.revision, f.past, f.since = pods, at, nil, since
	f.bookmark()
	select {
	case <-f.synced:
	default:
		close(f.synced)
	}
	return nil
}

// difference is what leads from some pods to others, in no order.
func difference(was, is map[string]*corev1.Pod) (changes []podChange) {
	for key, p := range was {
		if is[key] == nil {
			changes = append(changes, podChange{was: p, is: p, deleted: true})
		}
	}
	for key, p := range is {
		if before := was[key]; before == nil || before.UID != p.UID || before.ResourceVersion != p.ResourceVersion {
			changes = append(changes, podChange{was: before, is: p})
		}
	}
	return changes
}

func revisionOf(p *corev1.Pod) uint64 {
	at, _ := strconv.ParseUint(p.ResourceVersion, 10, 64)
	return at
}

func (f feedStore) change(p *corev1.Pod, deleted bool) error {
	at, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	p = f.smaller(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	key := podKey(p)
	c := podChange{revision: at, was: f.pods[key], is: p, deleted: deleted}
	if deleted {
		delete(f.pods, key)
	} else {
		f.pods[key] = p
	}
	f.revision = max(f.revision, at)
	if len(f.past) >= 2*mostPast {
		f.since = f.past[mostPast-1].revision
		f.past = slices.Clone(f.past[mostPast:])
	}
	f.past = append(f.past, c)
	for w := range f.readers {
		w.take(c)
	}
	return nil
}

func (f feedStore) smaller(p *corev1.Pod) *corev1.Pod {
	f.sharer.smaller(p)
	return p
}

func podKey(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

func revisionText(revision uint64) string { return strconv.FormatUint(revision, 10) }
