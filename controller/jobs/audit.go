package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

// errDeparted: a cache shows something else than the API, and will not come to.
var errDeparted = errors.New("a cache has departed from the API")

// settling is how long a cache may take to show what a list showed. One that is only
// slow, and taken for wrong, is filled anew: that does no harm, and it is slow no more.
const settling = 30 * time.Second

// audited is a kind whose cache is compared.
type audited struct {
	resource schema.GroupVersionResource
	selector string
	informer cache.SharedIndexInformer
	// concerns tells whether an object of the cache is among those that are listed.
	concerns func(metav1.Object) bool
}

// audit compares the caches with the API now and then. Freshness says whether a cache
// shows our own writes; an event of somebody else's that is lost for good (etcd #17529,
// #18089, #19179), with nothing after it on that object, only a list can tell. It returns
// when ctx ends, or with errDeparted.
func (c *instance) audit(ctx context.Context) error {
	tick := time.NewTicker(c.options.Audit)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, kind := range c.audited() {
			err := kind.compare(ctx, c.metadata)
			if errors.Is(err, errDeparted) {
				return err
			}
			if err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("The caches could not be compared with the API", "resource", kind.resource.Resource, "error", err)
			}
		}
	}
}

// audited are the Jobs, and the pods that bear the name of one; all pods where a Job has
// a selector of the user's own, whose pods need not bear it.
func (c *instance) audited() []audited {
	all := func(metav1.Object) bool { return true }
	pods := audited{corev1.SchemeGroupVersion.WithResource(podsResource), batchv1.JobNameLabel, c.pods, func(o metav1.Object) bool {
		_, ok := o.GetLabels()[batchv1.JobNameLabel]
		return ok
	}}
	if len(c.jobs.GetIndexer().ListIndexFuncValues(manual)) > 0 {
		pods.selector, pods.concerns = "", all
	}
	return []audited{{batchv1.SchemeGroupVersion.WithResource(jobsResource), "", c.jobs, all}, pods}
}

// compare lists a kind's metadata, waits until the cache has had time to show what was
// listed, and finds what it does not show.
func (a *audited) compare(ctx context.Context, client metadata.Interface) error {
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
	for _, obj := range a.informer.GetStore().List() {
		cached, err := meta.Accessor(obj)
		if err != nil || !a.concerns(cached) {
			continue
		}
		key := cached.GetNamespace() + "/" + cached.GetName()
		now, there := listed[key]
		delete(listed, key)
		switch {
		case !there && !workload.Older(revision, cached.GetResourceVersion()):
			return fmt.Errorf("%w: it still shows %s %s, which is gone", errDeparted, a.resource.Resource, key)
		case there && workload.Older(cached.GetResourceVersion(), now.revision):
			return fmt.Errorf("%w: it shows %s %s at revision %s, which was at %s %s ago", errDeparted, a.resource.Resource, key, cached.GetResourceVersion(), now.revision, settling)
		}
	}
	for key, now := range listed {
		if _, there, _ := a.informer.GetStore().GetByKey(key); !there && a.stillThere(ctx, client, key, now.uid) {
			return fmt.Errorf("%w: it does not show %s %s", errDeparted, a.resource.Resource, key)
		}
	}
	return nil
}

// entry is what the audit keeps of a listed object.
type entry struct {
	uid      types.UID
	revision string
}

func (a *audited) list(ctx context.Context, client metadata.Interface) (map[string]entry, string, error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(a.resource).List(ctx, o)
	})
	all := map[string]entry{}
	list, _, err := pages.List(ctx, metav1.ListOptions{LabelSelector: a.selector})
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
func (a *audited) stillThere(ctx context.Context, client metadata.Interface, key string, uid types.UID) bool {
	namespace, name, _ := cache.SplitMetaNamespaceKey(key)
	o, err := client.Resource(a.resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && o.UID == uid
}
