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

// ErrDiverged is the error that a cache differs from the API, and that no event will correct it.
var ErrDiverged = errors.New("a cache differs from the API")

const (
	// settling is how long a cache may take to show what a read returned. A cache that is only slow and is
	// taken for wrong lists again, which does no harm.
	settling = 30 * time.Second
	// auditReads is how many objects of a kind are read by name in one round: one per second if there is a
	// round every ten minutes.
	auditReads = 600
	// auditPage is the number of objects in one page of a list. An API server counts for each page the objects that remain
	// (etcd does it by walking them), so with the default of 500, 600 pages of 300,000 pods need seconds of CPU in addition to reading the objects.
	auditPage = 5000
	// auditPause is the time between two pages. All pages of 100,000 pods, read at once, allocate nearly two gigabytes in a server in the same process within the time of
	// one garbage collection, so that its memory grows by as much as a gigabyte.
	auditPause = 2 * time.Second
)

// Audited is a resource whose cache is compared with the API.
type Audited struct {
	Resource schema.GroupVersionResource
	// Selector (labels) and Fields select the objects that are listed. Concerns reports whether they select
	// an object of the cache.
	Selector string
	Fields   string
	Informer cache.SharedIndexInformer
	Concerns func(metav1.Object) bool
	// Live reads an object in the form in which the cache stores it, for Divergence.Object. May be nil.
	Live func(ctx context.Context, namespace, name string) (metav1.Object, error)
}

// All is an Audited.Concerns for all objects of a resource.
func All(metav1.Object) bool { return true }

// Divergence is an object that is wrong in a cache, or a resource whose cache has a newer revision than the
// API. It is an ErrDiverged.
type Divergence struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
	UID             types.UID
	// Cached and Live are the revisions in the cache and in the API; empty if the object is absent there.
	Cached, Live string
	// Server is true if the API server's list returns the same wrong object: to list again does not help.
	Server bool
	// History is true if the API has an older revision than the cache: its store was restored from a
	// backup, so revisions cannot be compared.
	History bool
	// Object is the object as Audited.Live read it, if Server is true; nil if it does not exist.
	Object metav1.Object
}

// Error implements error.
func (d *Divergence) Error() string {
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

// Is reports whether target is ErrDiverged.
func (d *Divergence) Is(target error) bool { return target == ErrDiverged }

// Audit compares caches with the API at an interval. Freshness detects that a cache does not show the
// controller's own writes. If the event of another client's write is lost for good (etcd #17529, #18089,
// #19179) and no later event of that object follows, only a read detects it.
//
// Audit lists each resource, which shows what the cache has missed. But an API server may serve a list from
// its watch cache, which may have lost the same event (kubernetes #123072); only a read by name goes to etcd.
// So each round also reads some objects of the cache by name: those whose deletion is overdue, and then
// auditReads of the others in rotation. An object that the watch cache does not have at all is not found,
// because its name is unknown.
//
// Audit calls found for each wrong object, until found returns an error, which Audit returns. It returns nil
// when ctx ends.
func Audit(ctx context.Context, every time.Duration, client metadata.Interface, kinds func() []Audited, found func(*Divergence) error) error {
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
				klog.FromContext(ctx).V(2).Info("Failed to compare a cache with the API", "resource", kind.Resource.Resource, "error", err)
			}
			for _, d := range all {
				if err := found(d); err != nil {
					return err
				}
			}
		}
	}
}

// First is a found function for Audit that returns the first wrong object as an error.
func First(d *Divergence) error { return d }

// compare lists the metadata of a resource and reads some objects by name. It waits until the cache has had
// time to show the same, and returns the objects that still differ.
func (a *Audited) compare(ctx context.Context, client metadata.Interface, last map[schema.GroupVersionResource]string) (all []*Divergence, err error) {
	reached := a.Informer.GetStore().LastStoreSyncResourceVersion()
	listed, revision, err := a.list(ctx, client)
	if err != nil {
		return nil, err
	}
	if workload.Older(revision, reached) {
		return []*Divergence{{Resource: a.Resource, Cached: reached, Live: revision, History: true}}, nil
	}
	reads := a.read(ctx, client, last)
	if pause(ctx, settling) != nil {
		return nil, nil
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
		now, exists := listed[key]
		delete(listed, key)
		d := a.divergence(key, cached.GetUID(), cached.GetResourceVersion(), now.revision)
		switch {
		case !exists && !workload.Older(revision, d.Cached) && !slices.ContainsFunc(all, d.same):
			all = append(all, d)
		case exists && workload.Older(d.Cached, now.revision):
			all = append(all, d)
		}
	}
	for key, now := range listed {
		if _, cached, _ := a.Informer.GetStore().GetByKey(key); !cached && a.exists(ctx, client, key, now.uid) {
			all = append(all, a.divergence(key, now.uid, "", now.revision))
		}
	}
	slices.SortFunc(all, func(a, b *Divergence) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// pause waits, and returns an error if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.C:
		return nil
	}
}

func (a *Audited) divergence(key string, uid types.UID, cached, live string) *Divergence {
	d := &Divergence{Resource: a.Resource, UID: uid, Cached: cached, Live: live}
	d.Namespace, d.Name, _ = cache.SplitMetaNamespaceKey(key)
	return d
}

func (d *Divergence) same(other *Divergence) bool { return d.UID == other.UID }

// keyOf is the key of an object in a cache.
func keyOf(o metav1.Object) string {
	return cache.NewObjectName(o.GetNamespace(), o.GetName()).String()
}

// reading is an object of a cache, and what a read by name returned.
type reading struct {
	key          string
	uid          types.UID
	cached, live string // revisions; live is empty if the object does not exist
}

// read reads objects of the cache by name: those whose deletion is overdue, and some of the others in
// rotation.
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

// check returns how an object that was read differs from the cache, nil if it does not. listed is the
// object's entry in the list.
func (a *Audited) check(r reading, listed entry) *Divergence {
	obj, cached, err := a.Informer.GetStore().GetByKey(r.key)
	if err != nil || !cached {
		return nil
	}
	o, err := meta.Accessor(obj)
	if err != nil || o.GetUID() != r.uid {
		return nil
	}
	d := a.divergence(r.key, r.uid, o.GetResourceVersion(), r.live)
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

// entry is the metadata of a listed object that the audit needs.
type entry struct {
	uid      types.UID
	revision string
}

// list returns an entry for each object, and the revision of the first page. It keeps at most three pages in memory. A server under load may forget
// the revision of a list before its last page; the other pages then show later revisions.
func (a *Audited) list(ctx context.Context, client metadata.Interface) (map[string]entry, string, error) {
	first := "" // the revision of the first page; the pager may still write it when EachListItem returns an error
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if o.Continue != "" {
			if err := pause(ctx, auditPause); err != nil {
				return nil, err
			}
		}
		list, err := client.Resource(a.Resource).List(ctx, o)
		if later := laterToken(err); later != "" {
			o.Continue = later
			list, err = client.Resource(a.Resource).List(ctx, o)
		}
		if err != nil {
			return nil, err
		}
		first = cmp.Or(first, list.ResourceVersion)
		return list, nil
	})
	pages.PageSize, pages.PageBufferSize = auditPage, 1
	all := map[string]entry{}
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: a.Selector, FieldSelector: a.Fields}, func(obj runtime.Object) error {
		o, err := meta.Accessor(obj)
		if err == nil {
			all[keyOf(o)] = entry{o.GetUID(), o.GetResourceVersion()}
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return all, first, nil
}

// laterToken returns the token with which an expired list continues at the server's current revision; empty if err is another error.
func laterToken(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// exists reports whether a listed object that is not in the cache still exists: most were deleted since.
func (a *Audited) exists(ctx context.Context, client metadata.Interface, key string, uid types.UID) bool {
	namespace, name, _ := cache.SplitMetaNamespaceKey(key)
	o, err := client.Resource(a.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && o.UID == uid
}
