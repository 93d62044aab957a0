package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

// claim adds a claim template.
func claim(name, size string) change {
	return func(c *v1beta1.CloneSet) {
		c.Spec.VolumeClaimTemplates = append(c.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("simulated"),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		})
		main := &c.Spec.Template.Spec.Containers[0]
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
}

// size changes the size of the first claim.
func size(s string) change {
	return func(c *v1beta1.CloneSet) {
		c.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(s)
	}
}

// claims checks that there are n claims, each controlled by the CloneSet, bound, and of an existing pod.
func claims(n int) func(view) error {
	return func(v view) error {
		if len(v.claims) != n {
			return fmt.Errorf("%d claims, not %d", len(v.claims), n)
		}
		ids := instances(v)
		for i := range v.claims {
			c := &v.claims[i]
			if !metav1.IsControlledBy(c, v.set) || c.Status.Phase != corev1.ClaimBound || !slices.Contains(ids, c.Labels[kruise.LabelInstanceID]) {
				return fmt.Errorf("claim %s: owners %v, %s, labels %v", c.Name, c.OwnerReferences, c.Status.Phase, c.Labels)
			}
		}
		return nil
	}
}

// instances returns the instance-ids of pods, sorted.
func instances(v view) (ids []string) {
	for i := range v.pods {
		ids = append(ids, v.pods[i].Labels[kruise.LabelInstanceID])
	}
	slices.Sort(ids)
	return ids
}

func uidsOf(claims []corev1.PersistentVolumeClaim) (uids []string) {
	for i := range claims {
		uids = append(uids, string(claims[i].UID))
	}
	slices.Sort(uids)
	return uids
}

// TestClaimReuse covers upstream's "Update with EnablePVCReuse=false". With reuse, the successor of a deleted
// pod gets its claims and its name; without, both are new.
func TestClaimReuse(t *testing.T) {
	s := begin(t)
	s.make(4, claim("data", "1Gi"), claim("logs", "1Gi"), func(c *v1beta1.CloneSet) { c.Spec.ScaleStrategy.EnablePVCReuse = true })
	before := s.see("four pods with two claims each", all(allReady(4), claims(8)))
	s.remove(before.pods[0].Name, before.pods[1].Name)
	again := s.see("two new pods with the claims of those before", all(allReady(4), kept(before.pods, 2), none, claims(8)))
	if !slices.Equal(instances(again), instances(before)) || !slices.Equal(uidsOf(again.claims), uidsOf(before.claims)) {
		t.Errorf("ids %v, then %v; claims %v, then %v", instances(before), instances(again), uidsOf(before.claims), uidsOf(again.claims))
	}
	s.edit(func(c *v1beta1.CloneSet) { c.Spec.ScaleStrategy.EnablePVCReuse = false })
	var names []string
	for i := range again.pods {
		names = append(names, again.pods[i].Name)
	}
	s.remove(names...)
	after := s.see("four new pods with new claims", all(allReady(4), kept(again.pods, 0), none, claims(8)))
	for _, uid := range uidsOf(after.claims) {
		if slices.Contains(uidsOf(again.claims), uid) {
			t.Errorf("claim %s still exists", uid)
		}
	}
}

// storage checks the size of all claims.
func storage(size string) func(view) error {
	return func(v view) error {
		for i := range v.claims {
			if got := v.claims[i].Spec.Resources.Requests.Storage().String(); got != size {
				return fmt.Errorf("claim %s has %s, not %s", v.claims[i].Name, got, size)
			}
		}
		return nil
	}
}

// TestClaimTemplates covers upstream's "Update with VolumeClaimTemplate changes". Changed claim templates
// alone create no revision. With a new revision, pods are recreated to get them, except with InPlaceOnly.
func TestClaimTemplates(t *testing.T) {
	s := begin(t)
	s.make(2, inPlace, maxUnavailable(number(2)), claim("data", "1Gi"))
	before := s.see("two pods", all(allReady(2), claims(2), storage("1Gi")))
	s.edit(image("main:2"), size("2Gi"))
	second := s.see("new pods with larger claims", all(allReady(2), kept(before.pods, 0), none, claims(2), storage("2Gi"), states(kruise.StateNormal, 2)))

	s.edit(size("3Gi"))
	s.see("the change is observed", allReady(2))
	s.stays("no pod is recreated", all(kept(second.pods, 2), allReady(2), storage("2Gi"), func(v view) error {
		if v.set.Status.UpdateRevision != second.set.Status.UpdateRevision {
			return errors.New("another revision exists")
		}
		return nil
	}))
	s.edit(image("main:3"))
	third := s.see("new pods again", all(allReady(2), kept(second.pods, 0), none, claims(2), storage("3Gi"), states(kruise.StateNormal, 2)))

	s.edit(policy(v1beta1.InPlaceOnly), size("4Gi"))
	s.edit(image("main:4"))
	s.see("the pods are changed, the claims are not", all(allReady(2), kept(third.pods, 2), claims(2), storage("3Gi"), states(kruise.StateNormal, 2)))
}

// TestPreparingUpdateCounts covers upstream's "regard preparing-update pod as update when scaling". A pod that
// waits for its update counts as updated, so that pods created meanwhile are of the old revision, as the
// partition requires.
func TestPreparingUpdateCounts(t *testing.T) {
	s := begin(t)
	s.make(4, inPlace, label("e2e/hold", "true"), hooks(kruise.Lifecycle{InPlaceUpdate: &kruise.LifecycleHook{LabelsHandler: map[string]string{"e2e/hold": "true"}}}))
	before := s.see("four pods", allReady(4))
	s.edit(image("main:2"), partition(percent("99%")))
	v := s.see("one waits for its update", all(states(kruise.StatePreparingUpdate, 1), states(kruise.StateNormal, 3), numbers(4, 4, 0, 0)))
	var waiting, other string
	for i := range v.pods {
		if state(&v.pods[i]) == kruise.StatePreparingUpdate {
			waiting = v.pods[i].Name
		} else {
			other = v.pods[i].Name
		}
	}
	s.remove(other)
	s.see("another of the old revision", all(states(kruise.StatePreparingUpdate, 1), states(kruise.StateNormal, 3), numbers(4, 4, 0, 0), kept(before.pods, 3), none))
	s.edit(replicas(5))
	s.see("one more of the old revision", all(states(kruise.StatePreparingUpdate, 1), states(kruise.StateNormal, 4), numbers(5, 5, 0, 0), kept(before.pods, 3)))

	back := func(p *corev1.Pod) { p.Labels["e2e/hold"] = "true" }
	s.editPod(waiting, release)
	s.see("it is updated, and waits for its hook", all(states(kruise.StateUpdated, 1), numbers(5, 5, 1, 1), kept(before.pods, 3)))
	s.editPod(waiting, back)
	s.see("it is Normal again", all(states(kruise.StateNormal, 5), numbers(5, 5, 1, 1)))

	s.edit(partition(number(0)), maxUnavailable(percent("100%")))
	v = s.see("the others wait", all(states(kruise.StatePreparingUpdate, 4), numbers(5, 5, 1, 1)))
	for i := range v.pods {
		if state(&v.pods[i]) == kruise.StatePreparingUpdate {
			s.editPod(v.pods[i].Name, release)
		}
	}
	s.see("all are updated", all(states(kruise.StateUpdated, 4), allReady(5)))
	for i := range v.pods {
		s.editPod(v.pods[i].Name, back)
	}
	s.see("all are Normal again", all(states(kruise.StateNormal, 5), allReady(5), kept(before.pods, 3)))
}
