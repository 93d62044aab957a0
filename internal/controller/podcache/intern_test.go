package podcache

import (
	"reflect"
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
			Name: name, UID: types.UID(name), ResourceVersion: "1", Namespace: "default", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: ptr.To(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "app", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			}},
			Tolerations: []corev1.Toleration{{Key: "a"}},
		},
	}
}

// TestIntern: pods of one owner in one phase share memory, and keep what is read from them except the managed fields.
func TestIntern(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		shares bool
	}{
		"equal":       {func(*corev1.Pod) {}, true},
		"label":       {func(p *corev1.Pod) { p.Labels["app"] = "other" }, true},
		"resources":   {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") }, true},
		"toleration":  {func(p *corev1.Pod) { p.Spec.Tolerations[0].Key = "b" }, false},
		"other phase": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false},
		"other owner": {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }, false},
		"no owner":    {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"deleted":     {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s Interner
			a, b := templated("a"), templated("b")
			c.change(b)
			want := b.DeepCopy()
			want.ManagedFields = nil
			s.Intern(a)
			s.Intern(b)
			if !equality.Semantic.DeepEqual(want, b) {
				t.Errorf("got %+v, want %+v", b, want)
			}
			if shares := &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0]; shares != c.shares {
				t.Errorf("the pods share their tolerations: %v, want %v", shares, c.shares)
			}
		})
	}
}

// TestInternAgain: client-go transforms an object of a list twice; the second time, it is not modified.
func TestInternAgain(t *testing.T) {
	var s Interner
	p := templated("a")
	s.Intern(p)
	labels := reflect.ValueOf(p.Labels).Pointer()
	s.Intern(templated("b"))
	s.Intern(p)
	if reflect.ValueOf(p.Labels).Pointer() != labels {
		t.Error("the pod was modified")
	}
	if p.ManagedFields != nil {
		t.Error("the pod has managed fields")
	}
}
