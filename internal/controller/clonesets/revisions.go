package clonesets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podtemplatedefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// defaulted is a template with what the API server fills into pods: upstream's own
// defaults, so that templates that mean the same are the same.
func defaulted(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	filled := &corev1.PodTemplate{Template: *t.DeepCopy()}
	podtemplatedefaults.SetObjectDefaults_PodTemplate(filled)
	return &filled.Template
}

func readRevision(o *appsv1.ControllerRevision) (*cloneset.Revision, error) {
	return cloneset.ReadRevision(o, func(t *corev1.PodTemplateSpec) { *t = *defaulted(t) })
}

// meetRevision looks at the ControllerRevision that bears the name that one was to be given:
// it may be ours, or have been left behind by a set of the same name and template.
func (c *instance) meetRevision(ctx context.Context, set *v1alpha1.CloneSet, m *memory, found *appsv1.ControllerRevision) error {
	r, err := readRevision(found)
	same := err == nil && r.Digest == m.digest
	owner := metav1.GetControllerOfNoCopy(found)
	switch {
	case metav1.IsControlledBy(found, set) && same:
		m.Wrote(revisionsResource, found.ResourceVersion)
		return nil
	case owner == nil && same && found.DeletionTimestamp == nil:
		return c.adoptRevision(ctx, set, m, found)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collides = true
	return fmt.Errorf("ControllerRevision %s holds another template: %w", found.Name, reconcile.ErrStale)
}

// adoptRevision makes a ControllerRevision without a controller the set's. A merge patch leaves
// its data as it is, byte for byte, which the API asks for.
func (c *instance) adoptRevision(ctx context.Context, set *v1alpha1.CloneSet, m *memory, found *appsv1.ControllerRevision) error {
	owners := append(slices.Clone(found.OwnerReferences), *metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind)))
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
	if err != nil {
		return err
	}
	if err := m.InTime(time.Now()); err != nil {
		return err
	}
	adopted := &appsv1.ControllerRevision{}
	err = c.client.AppsV1().RESTClient().Patch(types.MergePatchType).MaxRetries(0).Namespace(set.Namespace).Resource(revisionsResource).Name(found.Name).
		Body(workload.Named(patch, found.UID, found.ResourceVersion)).Do(ctx).Into(adopted)
	c.metrics.wrote(revisionsResource, "patch", err)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return reconcile.ErrStale
	case err != nil:
		return fmt.Errorf("adopting ControllerRevision %s: %w", found.Name, err)
	}
	m.Wrote(revisionsResource, adopted.ResourceVersion)
	return nil
}

// adoptRevisions takes over ControllerRevisions that a set of the same name has left behind:
// without them nobody knows what the pods that it left were made of. It tells whether there
// were any. One that cannot be had is told of, and holds nothing up.
func (c *instance) adoptRevisions(ctx context.Context, set *v1alpha1.CloneSet, m *memory) (any bool, err error) {
	match, err := cloneset.Matcher(set)
	if err != nil {
		return false, nil // the plan says so
	}
	found, _ := c.caches[revisionsResource].GetIndexer().ByIndex(byNobody, set.Namespace)
	for _, obj := range found {
		r := obj.(*appsv1.ControllerRevision)
		if r.DeletionTimestamp != nil || r.Labels[kruise.LabelRevision] == "" || !match(r.Labels) {
			continue
		}
		if read, err := readRevision(r); err != nil || !read.Made(set.Name, ptr.Deref(set.Status.CollisionCount, 0)) {
			continue
		}
		if !any { // it is known that the set is there
			live, err := c.liveSet(ctx, set.Namespace, set.Name)
			if err != nil {
				return false, err
			}
			if live == nil || live.UID != set.UID || live.DeletionTimestamp != nil {
				return false, reconcile.ErrStale
			}
		}
		switch err := c.adoptRevision(ctx, set, m, r); {
		case err == nil:
			any = true
		case errors.Is(err, reconcile.ErrStale):
			return true, err
		case ctx.Err() == nil:
			c.events.Tell(set, true, "FailedAdopt", err.Error())
		}
	}
	return any, nil
}
