package clonesets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// defaulted returns a template with the defaults that the API server sets in pods, so that equivalent
// templates are equal.
func defaulted(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	filled := &corev1.PodTemplate{Template: *t.DeepCopy()}
	podtemplatedefaults.SetObjectDefaults_PodTemplate(filled)
	return &filled.Template
}

func readRevision(o *appsv1.ControllerRevision) (*cloneset.Revision, error) {
	return cloneset.ReadRevision(o, func(t *corev1.PodTemplateSpec) { *t = *defaulted(t) })
}

// claimRevision decides on the ControllerRevision that already has the name of one that was to be created.
// It may be ours, or have no controller since a CloneSet of the same name and template was deleted without
// its dependents. Otherwise the hashes of two templates collide, and the next status update counts that.
func (c *instance) claimRevision(ctx context.Context, set *v1alpha1.CloneSet, m *memory, found *appsv1.ControllerRevision) (ours bool, err error) {
	r, err := readRevision(found)
	same := err == nil && r.Digest == m.digest
	switch {
	case metav1.IsControlledBy(found, set) && same:
		return true, nil
	case metav1.GetControllerOfNoCopy(found) == nil && same && found.DeletionTimestamp == nil:
		return true, c.adoptRevision(ctx, set, m, found)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revisionCollides = true
	return false, fmt.Errorf("create revision %s: a ControllerRevision with another template has this name: %w", found.Name, reconcile.ErrStale)
}

// adoptRevision makes the CloneSet the controller of a ControllerRevision without one. The merge patch
// leaves its data unchanged, byte for byte, which the API requires.
func (c *instance) adoptRevision(ctx context.Context, set *v1alpha1.CloneSet, m *memory, found *appsv1.ControllerRevision) error {
	owners := append(slices.Clone(found.OwnerReferences), *metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind)))
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
	if err != nil {
		return err
	}
	adopt := &workload.Action{Verb: workload.Patch, Object: found, PatchType: types.MergePatchType, Patch: json.RawMessage(patch), Exact: true}
	adopted, err := c.writer.Patch(ctx, &m.Memory, adopt, nil)
	if err == nil && adopted == nil {
		return reconcile.ErrStale
	}
	return err
}

// adoptRevisions adopts the ControllerRevisions of a deleted CloneSet of the same name: without them the
// revision of the pods that it left is unknown. It returns whether there were any. If one cannot be
// adopted, it emits an Event and goes on with the next.
func (c *instance) adoptRevisions(ctx context.Context, set *v1alpha1.CloneSet, m *memory) (adopted bool, err error) {
	match, err := cloneset.Matcher(set)
	if err != nil {
		return false, nil // the plan reports it
	}
	found, _ := c.caches[revisionsResource].GetIndexer().ByIndex(orphaned, set.Namespace)
	for _, obj := range found {
		r := obj.(*appsv1.ControllerRevision)
		if r.DeletionTimestamp != nil || r.Labels[kruise.LabelRevision] == "" || !match(r.Labels) {
			continue
		}
		if read, err := readRevision(r); err != nil || !read.IsNamedBy(set.Name, ptr.Deref(set.Status.CollisionCount, 0)) {
			continue
		}
		if !adopted { // first check that the CloneSet still exists
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
			adopted = true
		case errors.Is(err, reconcile.ErrStale):
			return true, err
		case ctx.Err() == nil:
			c.events.Emit(set, true, "FailedAdopt", fmt.Sprintf("revision %s could not be adopted: %s", r.Name, err))
		}
	}
	return adopted, nil
}
