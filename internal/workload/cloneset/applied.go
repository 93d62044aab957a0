package cloneset

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// Applied implements workload.Applier for the fields that plans patch most often: labels, annotations, images
// and conditions. It returns nil for other patches, because only the API server merges owners, finalizers and
// resources.
func (b patch) Applied(o workload.Object) workload.Object {
	from, ok := o.(*corev1.Pod)
	if !ok || b.Metadata.Finalizers != nil || b.Metadata.OwnerReferences != nil {
		return nil
	}
	to := *from
	to.Labels = changed(from.Labels, b.Metadata.Labels)
	annotations, ok := texts(b.Metadata.Annotations)
	if !ok {
		return nil
	}
	to.Annotations = changed(from.Annotations, annotations)
	if b.Spec != nil {
		if to.Spec.Containers, ok = withImages(from.Spec.Containers, b.Spec.Containers); !ok {
			return nil
		}
	}
	if b.Status != nil {
		to.Status.Conditions = withConditions(from.Status.Conditions, b.Status.Conditions)
	}
	return &to
}

// changed returns a copy of a map with changes; nil deletes a key.
func changed(from map[string]string, changes map[string]*string) map[string]string {
	if len(changes) == 0 {
		return from
	}
	to := make(map[string]string, len(from)+len(changes))
	maps.Copy(to, from)
	for key, value := range changes {
		if value == nil {
			delete(to, key)
		} else {
			to[key] = *value
		}
	}
	return to
}

// texts returns the annotations of a patch as strings, and false if one is neither null nor a string.
func texts(annotations map[string]any) (map[string]*string, bool) {
	all := make(map[string]*string, len(annotations))
	for key, value := range annotations {
		switch v := value.(type) {
		case nil:
			all[key] = nil
		case string:
			all[key] = &v
		case text:
			inner, err := json.Marshal(v.of)
			if err != nil {
				return nil, false
			}
			all[key] = ptrTo(string(inner))
		default:
			return nil, false
		}
	}
	return all, true
}

// withImages returns containers with the images of a patch, and false if the patch changes more than images.
func withImages(from []corev1.Container, changes []patchContainer) ([]corev1.Container, bool) {
	to := slices.Clone(from)
	for _, change := range changes {
		i := slices.IndexFunc(to, func(c corev1.Container) bool { return c.Name == change.Name })
		if i < 0 || change.Resources != nil {
			return nil, false
		}
		if change.Image != "" {
			to[i].Image = change.Image
		}
	}
	return to, true
}

// withConditions returns conditions with those of a patch, each at its former position.
func withConditions(from []corev1.PodCondition, changes []patchCondition) []corev1.PodCondition {
	to := slices.Clone(from)
	for _, change := range changes {
		i := slices.IndexFunc(to, func(c corev1.PodCondition) bool { return c.Type == change.Type })
		if i < 0 {
			i = len(to)
			to = append(to, corev1.PodCondition{Type: change.Type})
		}
		c := &to[i]
		c.Status, c.Reason, c.Message, c.LastTransitionTime = change.Status, change.Reason, change.Message, change.LastTransitionTime
	}
	return to
}
