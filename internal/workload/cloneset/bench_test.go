package cloneset

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// BenchmarkPlan measures one plan for a set of 10,000 pods: in the steady state, during an update in place,
// during one that recreates pods, and when half of the pods are surplus.
func BenchmarkPlan(b *testing.B) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const n = 10_000
	for _, c := range []struct {
		name     string
		kind     v1alpha1.CloneSetUpdateStrategyType
		updated  int
		replicas int32
	}{
		{"rest", v1alpha1.ReCreate, n, n},
		{"inplace", v1alpha1.InPlaceIfPossible, n / 2, n},
		{"recreate", v1alpha1.ReCreate, n / 2, n},
		{"shrink", v1alpha1.ReCreate, n, n / 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := bigState(now, n, c.updated)
			s.Set.Spec.Replicas, s.Set.Spec.UpdateStrategy.Type = &c.replicas, c.kind
			b.ReportAllocs()
			for b.Loop() {
				Plan(now, s)
			}
		})
	}
}

// bigState returns a set with two revisions and n available pods, the given number of which are updated.
func bigState(now time.Time, n, updated int) State {
	set := &v1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set", Generation: 2}}
	set.Spec.Replicas = ptr.To(int32(n))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:2"}}
	s := State{Set: set, Limits: DefaultLimits, Digest: Digest(&set.Spec.Template)}
	old := set.Spec.Template.DeepCopy()
	old.Spec.Containers[0].Image = "web:1"
	for i, t := range []*corev1.PodTemplateSpec{old, &set.Spec.Template} {
		s.Revisions = append(s.Revisions, &Revision{
			Object:   &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Namespace: "default"}, Revision: int64(i + 1), Data: runtime.RawExtension{}},
			Template: t, Defaulted: t, Digest: Digest(t),
		})
	}
	set.Status.CurrentRevision = "web-0"
	for i := range n {
		revision, image := "web-0", "web:1"
		if i < updated {
			revision, image = "web-1", "web:2"
		}
		s.Pods = append(s.Pods, View(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("web-%05d", i), UID: "pod", ResourceVersion: "1", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
				OwnerReferences: []metav1.OwnerReference{{UID: "set", Controller: ptr.To(true)}},
				Labels:          map[string]string{"app": "web", kruise.LabelInstanceID: fmt.Sprint(i), kruise.LabelRevision: revision, kruise.LabelState: string(kruise.StateNormal)},
			},
			Spec: corev1.PodSpec{
				NodeName: fmt.Sprintf("node-%d", i%1000), ReadinessGates: []corev1.PodReadinessGate{{ConditionType: kruise.ConditionInPlaceUpdateReady}},
				Containers: []corev1.Container{{Name: "main", Image: image}},
			},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning,
				Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
					{Type: kruise.ConditionInPlaceUpdateReady, Status: corev1.ConditionTrue},
				},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: image, ImageID: image, ContainerID: image, Ready: true}},
			},
		}))
	}
	return s
}
