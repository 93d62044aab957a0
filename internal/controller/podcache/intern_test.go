package podcache

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func templated(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Namespace: "default", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "token-" + name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "app", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
				VolumeMounts: []corev1.VolumeMount{{Name: "token-" + name, MountPath: "/token"}},
			}},
			Tolerations: []corev1.Toleration{{Key: "a"}},
		},
	}
}

// TestInternKeepsContent checks that interning does not change the content of a pod, whether it equals its
// sample or differs from it.
func TestInternKeepsContent(t *testing.T) {
	var s Interner
	s.shareParts(templated("a"))
	for name, change := range map[string]func(*corev1.Pod){
		"equal":       func(*corev1.Pod) {},
		"labels":      func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} },
		"no labels":   func(p *corev1.Pod) { p.Labels = nil },
		"resources":   func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") },
		"containers":  func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "more"}) },
		"volumes":     func(p *corev1.Pod) { p.Spec.Volumes = nil },
		"tolerations": func(p *corev1.Pod) { p.Spec.Tolerations[0].Key = "b" },
		"conditions":  func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: "X"}} },
		"other owner": func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		"no owner":    func(p *corev1.Pod) { p.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			p := templated("b")
			change(p)
			want := p.DeepCopy()
			s.shareParts(p)
			if !equality.Semantic.DeepEqual(want, p) {
				t.Errorf("got %+v, want %+v", p, want)
			}
		})
	}
}

// TestInternShares checks that equal parts share memory, that names differ, and that the number of samples is
// limited.
func TestInternShares(t *testing.T) {
	var s Interner
	a, b := templated("a"), templated("b")
	s.shareParts(a)
	s.shareParts(b)
	if &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] || a.Spec.Volumes[0].ConfigMap != b.Spec.Volumes[0].ConfigMap {
		t.Error("equal parts do not share memory")
	}
	if b.Spec.Volumes[0].Name != "token-b" || b.Spec.Containers[0].VolumeMounts[0].Name != "token-b" {
		t.Error("a name was copied from the sample")
	}
	for i := range maxSamples + 10 {
		p := templated(fmt.Sprint(i))
		p.OwnerReferences[0].UID = types.UID(p.Name)
		s.shareParts(p)
	}
	if len(s.samples) > maxSamples {
		t.Errorf("%d samples, want at most %d", len(s.samples), maxSamples)
	}
}
