package clonesets

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podtemplatedefaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
	"github.com/rehearse-k8s/rehearse/controller/shell"
	"github.com/rehearse-k8s/rehearse/workload"
	"github.com/rehearse-k8s/rehearse/workload/cloneset"
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
		ref := metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
		patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}]}}`,
			ref.APIVersion, ref.Kind, ref.Name, ref.UID)
		adopted, err := c.client.AppsV1().ControllerRevisions(set.Namespace).Patch(ctx, found.Name, types.StrategicMergePatchType,
			workload.Named(patch, found.UID, found.ResourceVersion), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("adopting ControllerRevision %s: %w", found.Name, err)
		}
		m.Wrote(revisionsResource, adopted.ResourceVersion)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collides = true
	return fmt.Errorf("ControllerRevision %s holds another template: %w", found.Name, shell.ErrStale)
}
