package shell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/workload"
)

// ErrDeparted: a cache shows something else than the API, and will not come to.
var ErrDeparted = errors.New("a cache has departed from the API")

// settling is how long a cache may take to show what a list showed. One that is only
// slow, and taken for wrong, is filled anew: that does no harm, and it is slow no more.
const settling = 30 * time.Second

// Audited is a kind whose cache is compared with the API.
type Audited struct {
	Resource schema.GroupVersionResource
	// Selector is of the objects that are listed, and Concerns tells whether an object of the
	// cache is among them.
	Selector string
	Informer cache.SharedIndexInformer
	Concerns func(metav1.Object) bool
}

// All is for Audited.Concerns.
func All(metav1.Object) bool { return true }

// Audit compares caches with the API, once in so much time. Freshness says whether a cache
// shows our own writes; an event of somebody else's that is lost for good (etcd #17529,
// #18089, #19179), with nothing after it on that object, only a list can tell. It returns
// when ctx ends, or with ErrDeparted.
func Audit(ctx context.Context, every time.Duration, client metadata.Interface, kinds func() []Audited) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, kind := range kinds() {
			err := kind.compare(ctx, client)
			if errors.Is(err, ErrDeparted) {
				return err
			}
			if err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("The caches could not be compared with the API", "resource", kind.Resource.Resource, "error", err)
			}
		}
	}
}

// compare lists a kind's metadata, waits until the cache has had time to show what was
// listed, and finds what it does not show.
func (a *Audited) compare(ctx context.Context, client metadata.Interface) error {
	listed, revision, err := a.list(ctx, client)
	if err != nil {
		return err
	}
	wait := time.NewTimer(settling)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-wait.C:
	}
	for _, obj := range a.Informer.GetStore().List() {
		cached, err := meta.Accessor(obj)
		if err != nil || !a.Concerns(cached) {
			continue
		}
		key := cached.GetNamespace() + "/" + cached.GetName()
		now, there := listed[key]
		delete(listed, key)
		switch {
		case !there && !workload.Older(revision, cached.GetResourceVersion()):
			return fmt.Errorf("%w: it still shows %s %s, which is gone", ErrDeparted, a.Resource.Resource, key)
		case there && workload.Older(cached.GetResourceVersion(), now.revision):
			return fmt.Errorf("%w: it shows %s %s at revision %s, which was at %s %s ago", ErrDeparted, a.Resource.Resource, key, cached.GetResourceVersion(), now.revision, settling)
		}
	}
	for key, now := range listed {
		if _, there, _ := a.Informer.GetStore().GetByKey(key); !there && a.stillThere(ctx, client, key, now.uid) {
			return fmt.Errorf("%w: it does not show %s %s", ErrDeparted, a.Resource.Resource, key)
		}
	}
	return nil
}

// entry is what the audit keeps of a listed object.
type entry struct {
	uid      types.UID
	revision string
}

func (a *Audited) list(ctx context.Context, client metadata.Interface) (map[string]entry, string, error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(a.Resource).List(ctx, o)
	})
	all := map[string]entry{}
	list, _, err := pages.List(ctx, metav1.ListOptions{LabelSelector: a.Selector})
	if err != nil {
		return nil, "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		o, err := meta.Accessor(obj)
		if err == nil {
			all[o.GetNamespace()+"/"+o.GetName()] = entry{o.GetUID(), o.GetResourceVersion()}
		}
		return err
	})
	return all, m.GetResourceVersion(), err
}

// stillThere tells whether an object that was listed, and that the cache does not show,
// exists: most were deleted since.
func (a *Audited) stillThere(ctx context.Context, client metadata.Interface, key string, uid types.UID) bool {
	namespace, name, _ := cache.SplitMetaNamespaceKey(key)
	o, err := client.Resource(a.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && o.UID == uid
}
