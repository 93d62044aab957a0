package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// ErrDeparted: a cache shows something else than the API, and will not come to.
var ErrDeparted = errors.New("a cache has departed from the API")

const (
	// settling is how long a cache may take to show what a read showed. One that is only
	// slow, and taken for wrong, is filled again: that does no harm, and it is slow no more.
	settling = 30 * time.Second
	// auditReads is how many objects of a kind are read by name in one round: one a second at a
	// round every ten minutes.
	auditReads = 600
)

// Audited is a kind whose cache is compared with the API.
type Audited struct {
	Resource schema.GroupVersionResource
	// Selector of labels and Fields are of the objects that are listed, and Concerns tells whether
	// an object of the cache is among them.
	Selector string
	Fields   string
	Informer cache.SharedIndexInformer
	Concerns func(metav1.Object) bool
	// Live reads an object as the cache would hold it, for Departed.Object. May be nil.
	Live func(ctx context.Context, namespace, name string) (metav1.Object, error)
}

// All is for Audited.Concerns.
func All(metav1.Object) bool { return true }

// Departed is an object that a cache shows wrong, or a kind whose cache has reached a revision that
// the API has not. It is an ErrDeparted.
type Departed struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
	UID             types.UID
	// Cached and Live are the revisions that the cache and the API have; empty for an object that is
	// not there.
	Cached, Live string
	// Server is true if the API server's list shows what the cache shows: to fill the cache again
	// does not help.
	Server bool
	// History is true if the API has an older revision than the cache: its store was restored from a
	// backup, and revisions do not compare.
	History bool
	// Object is the object as Audited.Live has read it, if Server is true; nil if it is gone.
	Object metav1.Object
}

// Error implements error.
func (d *Departed) Error() string {
	about := d.Resource.Resource
	if d.Name != "" {
		about += " " + cache.NewObjectName(d.Namespace, d.Name).String()
	}
	state := func(revision string) string {
		if revision == "" {
			return "does not have it"
		}
		return "is at revision " + revision
	}
	text := fmt.Sprintf("audit %s: the cache %s, the API %s", about, state(d.Cached), state(d.Live))
	switch {
	case d.History:
		text += ", which is older: its store was restored"
	case d.Server:
		text += " when it is read by name, but lists what the cache has: the watch cache of the API server is wrong"
	}
	return text
}

// Is reports whether target is ErrDeparted.
func (d *Departed) Is(target error) bool { return target == ErrDeparted }

// Audit compares caches with the API once in so much time. Freshness says whether a cache
// shows our own writes; an event of another client's write that is lost for good (etcd #17529,
// #18089, #19179), with nothing after it on that object, only a read can tell.
//
// It lists each kind, which shows what the cache does not have. But a list is served from the
// watch cache of an API server, which may have lost the same event (kubernetes #123072); only
// a read by name is of etcd. So each round also reads some objects of the cache by name: those
// that should be gone by now, and then auditReads in turn. What an API server's watch cache does
// not have at all is not found, because its name is unknown.
//
// found is called for each object that is wrong, until it returns an error, which Audit returns. It returns
// nil when ctx ends.
func Audit(ctx context.Context, every time.Duration, client metadata.Interface, kinds func() []Audited, found func(*Departed) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := map[schema.GroupVersionResource]string{} // the key that was read last
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, kind := range kinds() {
			all, err := kind.compare(ctx, client, last)
			if err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("The caches could not be compared with the API", "resource", kind.Resource.Resource, "error", err)
			}
			for _, d := range all {
				if err := found(d); err != nil {
					return err
				}
			}
		}
	}
}

// First is for Audit: it returns the first object that is wrong, as an error.
func First(d *Departed) error { return d }

// compare lists a kind's metadata and reads some objects, waits until the cache has had time to show
// that, and returns what it does not show.
func (a *Audited) compare(ctx context.Context, client metadata.Interface, last map[schema.GroupVersionResource]string) (all []*Departed, err error) {
	reached := a.Informer.GetStore().LastStoreSyncResourceVersion()
	listed, revision, err := a.list(ctx, client)
	if err != nil {
		return nil, err
	}
	if workload.Older(revision, reached) {
		return []*Departed{{Resource: a.Resource, Cached: reached, Live: revision, History: true}}, nil
	}
	reads := a.read(ctx, client, last)
	wait := time.NewTimer(settling)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return nil, nil
	case <-wait.C:
	}
	for _, r := range reads {
		if d := a.check(r, listed[r.key]); d != nil {
			if d.Server && a.Live != nil {
				if d.Object, err = a.Live(ctx, d.Namespace, d.Name); err != nil && !apierrors.IsNotFound(err) {
					return all, err
				}
				if err != nil || d.Object.GetUID() != d.UID {
					d.Object = nil
				}
			}
			all = append(all, d)
			delete(listed, r.key)
		}
	}
	for _, obj := range a.Informer.GetStore().List() {
		cached, err := meta.Accessor(obj)
		if err != nil || !a.Concerns(cached) {
			continue
		}
		key := keyOf(cached)
		now, there := listed[key]
		delete(listed, key)
		d := a.departed(key, cached.GetUID(), cached.GetResourceVersion(), now.revision)
		switch {
		case !there && !workload.Older(revision, d.Cached) && !slices.ContainsFunc(all, d.same):
			all = append(all, d)
		case there && workload.Older(d.Cached, now.revision):
			all = append(all, d)
		}
	}
	for key, now := range listed {
		if _, there, _ := a.Informer.GetStore().GetByKey(key); !there && a.stillThere(ctx, client, key, now.uid) {
			all = append(all, a.departed(key, now.uid, "", now.revision))
		}
	}
	slices.SortFunc(all, func(a, b *Departed) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

func (a *Audited) departed(key string, uid types.UID, cached, live string) *Departed {
	d := &Departed{Resource: a.Resource, UID: uid, Cached: cached, Live: live}
	d.Namespace, d.Name, _ = cache.SplitMetaNamespaceKey(key)
	return d
}

func (d *Departed) same(other *Departed) bool { return d.UID == other.UID }

// keyOf is the key of an object in a cache.
func keyOf(o metav1.Object) string {
	return cache.NewObjectName(o.GetNamespace(), o.GetName()).String()
}

// reading is an object of a cache and what a read by name showed of it.
type reading struct {
	key          string
	uid          types.UID
	cached, live string // revisions; no live one: it is gone
}

// read reads objects of the cache by name: those that should be gone, and some of the others in turn.
func (a *Audited) read(ctx context.Context, client metadata.Interface, last map[schema.GroupVersionResource]string) (all []reading) {
	var overdue, others []reading
	now := time.Now()
	for _, obj := range a.Informer.GetStore().List() {
		o, err := meta.Accessor(obj)
		if err != nil || o.GetUID() == "" || !a.Concerns(o) {
			continue
		}
		r := reading{key: keyOf(o), uid: o.GetUID(), cached: o.GetResourceVersion()}
		if at := o.GetDeletionTimestamp(); at != nil && at.Time.Before(now) {
			overdue = append(overdue, r)
		} else {
			others = append(others, r)
		}
	}
	byKey := func(a, b reading) int { return cmp.Compare(a.key, b.key) }
	slices.SortFunc(overdue, byKey)
	slices.SortFunc(others, byKey)
	from, found := slices.BinarySearchFunc(others, reading{key: last[a.Resource]}, byKey)
	if found {
		from++
	}
	others = append(others[from:], others[:from]...)
	for n, r := range append(overdue, others...) {
		if n == auditReads || ctx.Err() != nil {
			break
		}
		if n >= len(overdue) {
			last[a.Resource] = r.key
		}
		namespace, name, _ := cache.SplitMetaNamespaceKey(r.key)
		live, err := client.Resource(a.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			continue
		}
		if err == nil && live.UID == r.uid {
			r.live = live.ResourceVersion
		}
		all = append(all, r)
	}
	return all
}

// check returns what is wrong with an object that was read, nil if the cache shows it by now. listed is
// what the list showed of it.
func (a *Audited) check(r reading, listed entry) *Departed {
	obj, there, err := a.Informer.GetStore().GetByKey(r.key)
	if err != nil || !there {
		return nil
	}
	o, err := meta.Accessor(obj)
	if err != nil || o.GetUID() != r.uid {
		return nil
	}
	d := a.departed(r.key, r.uid, o.GetResourceVersion(), r.live)
	switch {
	case r.live == "":
		d.Server = listed.uid == r.uid
	case workload.Older(r.live, r.cached):
		d.History = true
	case workload.Older(d.Cached, r.live):
		d.Server = listed.uid == r.uid && workload.Older(listed.revision, r.live)
	default:
		return nil
	}
	return d
}

// entry is what the audit keeps of a listed object.
type entry struct {
	uid      types.UID
	revision string
}

// list returns what the audit keeps of each object, and the revision of the list. It keeps no page.
func (a *Audited) list(ctx context.Context, client metadata.Interface) (all map[string]entry, revision string, err error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list, err := client.Resource(a.Resource).List(ctx, o)
		if err != nil {
			return nil, err
		}
		revision = list.ResourceVersion
		return list, nil
	})
	all = map[string]entry{}
	err = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: a.Selector, FieldSelector: a.Fields}, func(obj runtime.Object) error {
		o, err := meta.Accessor(obj)
		if err == nil {
			all[keyOf(o)] = entry{o.GetUID(), o.GetResourceVersion()}
		}
		return err
	})
	return all, revision, err
}

// stillThere tells whether an object that was listed, and that the cache does not show,
// exists: most were deleted since.
func (a *Audited) stillThere(ctx context.Context, client metadata.Interface, key string, uid types.UID) bool {
	namespace, name, _ := cache.SplitMetaNamespaceKey(key)
	o, err := client.Resource(a.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && o.UID == uid
}
