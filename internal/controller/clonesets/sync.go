package clonesets

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// sync reconciles one CloneSet and returns when to reconcile it again at the latest.
func (c *instance) sync(ctx context.Context, k key) (wake time.Duration, err error) {
	m := c.memories.Of(k)
	if err := c.writer.Settle(ctx, &m.Memory, k.namespace); err != nil {
		return 0, err
	}
	if c.behind(ctx, k, m) {
		return reconcile.Fallback, nil
	}
	m.Decided(time.Now())
	set := c.set(k)
	if set == nil || set.DeletionTimestamp != nil {
		c.memories.Forget(k)
		c.metrics.setPods(k, nil)
		return 0, nil
	}
	if why := set.Annotations[unreadable]; why != "" {
		d := cloneset.Unreadable(time.Now(), set, why)
		return 0, c.carryOut(ctx, set, m, &d)
	}
	switch adopted, err := c.adoptRevisions(ctx, set, m); {
	case err != nil:
		return 0, err
	case adopted:
		return reconcile.Fallback, nil // the next plan uses them
	}
	d := cloneset.Plan(time.Now(), c.state(ctx, k, set, m))
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		for _, r := range d.Reasons {
			log.Info(r.Text, "cloneSet", klog.KObj(set), "reason", r.Code)
		}
	}
	m.past = d.Past
	c.metrics.setPods(k, d.Tally.States)
	c.metrics.rolledOut(d.Tally.RolledOut)
	err = c.carryOut(ctx, set, m, &d)
	if len(d.Actions) > 0 && err == nil { // after an error, the queue's backoff
		d.Wake = workload.Soonest(d.Wake, reconcile.Fallback)
	}
	return d.Wake, err
}

// state returns the planner's input for a CloneSet, from the caches.
func (c *instance) state(ctx context.Context, k key, set *v1alpha1.CloneSet, m *memory) cloneset.State {
	s := cloneset.State{Set: set, Past: m.past, Limits: c.options.Limits}
	s.Past.Rejected = m.blocked()
	if m.digest == "" || m.generation != set.Generation {
		m.generation, m.digest = set.Generation, cloneset.Digest(defaulted(&set.Spec.Template))
	}
	s.Digest = m.digest

	owned, _ := c.caches[podsResource].GetIndexer().ByIndex(byOwner, string(k.uid))
	if m.views == nil || len(m.views) > 2*len(owned)+reconcile.SmallOwner {
		m.views = make(map[types.UID]*cloneset.Pod, len(owned))
	}
	s.Pods = make([]*cloneset.Pod, 0, len(owned))
	for _, obj := range owned {
		pod := obj.(*corev1.Pod)
		if pod.Namespace != k.namespace || metav1.GetControllerOfNoCopy(pod).Name != k.name {
			continue // the API does not check that namespace, name and UID belong together
		}
		view := m.views[pod.UID]
		if view == nil || view.ResourceVersion != pod.ResourceVersion {
			view = cloneset.View(pod)
			m.views[pod.UID] = view
		}
		s.Pods = append(s.Pods, view)
	}
	slices.SortFunc(s.Pods, func(a, b *cloneset.Pod) int { return strings.Compare(a.Name, b.Name) })
	c.memories.SetSize(k, len(s.Pods))

	s.Orphans, s.LooseClaims = c.orphans(set), c.looseClaims(set)
	claims, _ := c.caches[claimsResource].GetIndexer().ByIndex(byOwner, string(k.uid))
	for _, obj := range claims {
		s.Claims = append(s.Claims, cloneset.ViewClaim(obj.(*corev1.PersistentVolumeClaim)))
	}
	slices.SortFunc(s.Claims, func(a, b *cloneset.Claim) int { return strings.Compare(a.Name, b.Name) })
	s.Revisions = c.revisions(ctx, k, m)
	if len(set.Spec.Template.Spec.TopologySpreadConstraints) > 0 {
		s.Nodes = c.nodes.labels()
	}
	return s
}

// orphans returns the pods without a controller that match the selector.
func (c *instance) orphans(set *v1alpha1.CloneSet) (orphans []*cloneset.Pod) {
	match, err := cloneset.Matcher(set)
	if err != nil {
		return nil
	}
	found, _ := c.caches[podsResource].GetIndexer().ByIndex(orphaned, set.Namespace)
	for _, obj := range found {
		if pod := obj.(*corev1.Pod); match(pod.Labels) {
			orphans = append(orphans, cloneset.View(pod))
		}
	}
	slices.SortFunc(orphans, func(a, b *cloneset.Pod) int { return strings.Compare(a.Name, b.Name) })
	return orphans
}

// looseClaims returns the claims without a controller that were created for a pod of a CloneSet of this name.
func (c *instance) looseClaims(set *v1alpha1.CloneSet) (loose []*cloneset.Claim) {
	found, _ := c.caches[claimsResource].GetIndexer().ByIndex(byFormer, set.Namespace+"/"+set.Name)
	for _, obj := range found {
		loose = append(loose, cloneset.ViewClaim(obj.(*corev1.PersistentVolumeClaim)))
	}
	slices.SortFunc(loose, func(a, b *cloneset.Claim) int { return strings.Compare(a.Name, b.Name) })
	return loose
}

// revisions decodes the ControllerRevisions of a CloneSet. It skips one that cannot be decoded: the revision
// of its pods is then unknown.
func (c *instance) revisions(ctx context.Context, k key, m *memory) (all []*cloneset.Revision) {
	found, _ := c.caches[revisionsResource].GetIndexer().ByIndex(byOwner, string(k.uid))
	kept := make(map[types.UID]*cloneset.Revision, len(found))
	for _, obj := range found {
		o := obj.(*appsv1.ControllerRevision)
		r := m.revisions[o.UID]
		if r == nil || r.Object.ResourceVersion != o.ResourceVersion {
			var err error
			if r, err = readRevision(o); err != nil {
				klog.FromContext(ctx).Error(err, "Decode ControllerRevision failed; its pods have no known revision", "cloneSet", k.Ref())
				continue
			}
		}
		kept[o.UID] = r
		all = append(all, r)
	}
	m.revisions = kept
	slices.SortFunc(all, func(a, b *cloneset.Revision) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return all
}

// behind reports whether a cache does not show this controller's own writes for a CloneSet yet.
func (c *instance) behind(ctx context.Context, k key, m *memory) bool {
	resource, why, waited := m.Behind(time.Now(), k.namespace, c.store)
	if why == "" {
		c.metrics.Waited(waited)
		return false
	}
	klog.FromContext(ctx).V(4).Info("CloneSet waits for its caches", "cloneSet", k.Ref(), "because", why)
	c.metrics.StaleSync(resource)
	return true
}
