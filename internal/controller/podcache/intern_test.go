package podcache

import (
	"fmt"
	"reflect"
	"sync"
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

// TestVersions: two caches get the same object for a version of a pod, and other versions, other pods and old versions are not confused.
func TestVersions(t *testing.T) {
	var v Versions
	get := func(name, revision string) *corev1.Pod {
		p := templated(name)
		p.ResourceVersion = revision
		got, err := v.Transform(p)
		must(t, err)
		if p = got.(*corev1.Pod); p.Name != name || p.ResourceVersion != revision || p.ManagedFields != nil {
			t.Errorf("got %s at %s with managed fields %v, want %s at %s without", p.Name, p.ResourceVersion, p.ManagedFields, name, revision)
		}
		return p
	}
	first := get("a", "1")
	if get("a", "1") != first {
		t.Error("the second cache has another object for the same version")
	}
	second := get("a", "2")
	if second == first || get("a", "2") != second {
		t.Error("a new version is not kept")
	}
	if get("b", "2") == second {
		t.Error("two pods are one object")
	}
	get("a", "1") // a cache that is one event behind
	for n := range 2 * maxRecent {
		get(fmt.Sprint("pod-", n), "3")
	}
	if len(v.recent) > maxRecent {
		t.Errorf("%d recent pods, want at most %d", len(v.recent), maxRecent)
	}
	if get("a", "2") == second {
		t.Error("an old pod is still kept")
	}
	if node, err := v.Transform(&corev1.Node{}); err != nil || node == nil {
		t.Errorf("a node: %v, %v", node, err)
	}
}

// TestVersionsAgain: a pod that comes again after it was forgotten is not modified, because other caches have it.
func TestVersionsAgain(t *testing.T) {
	var v Versions
	p := v.get(templated("a"))
	labels := reflect.ValueOf(p.Labels).Pointer()
	for n := range maxRecent + 1 {
		other := templated(fmt.Sprint("pod-", n))
		if n < maxRecent {
			other.Labels["app"] = "db"
		}
		v.get(other)
	}
	if v.known(p) != nil {
		t.Fatal("the pod is still kept")
	}
	if v.get(p) != p || reflect.ValueOf(p.Labels).Pointer() != labels {
		t.Error("the pod was modified")
	}
}

// TestVersionsConcurrently is for the race detector.
func TestVersionsConcurrently(t *testing.T) {
	var v Versions
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 200 {
				p := v.get(templated(fmt.Sprint(n)))
				if q := p.Spec.Containers[0].Resources.Requests["cpu"]; q.String() != "1" {
					t.Error(q.String())
				}
			}
		})
	}
	wg.Wait()
}
