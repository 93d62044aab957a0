package clonesets

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// newIdleInstance returns an instance that makes no requests: tests fill its caches.
func newIdleInstance(t testing.TB) *instance {
	o := Options{}
	o.complete()
	c, err := newInstance(&rest.Config{Host: "http://127.0.0.1:0"}, o, &reconcile.Corrections{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *instance) fill(t interface{ Fatal(...any) }, resource string, o any) {
	if err := c.caches[resource].GetIndexer().Add(o); err != nil {
		t.Fatal(err)
	}
}

// TestKeysOf checks, for random caches, that an object that a plan of a set reads queues that set.
func TestKeysOf(t *testing.T) {
	c := newIdleInstance(t)
	rapid.Check(t, func(rt *rapid.T) {
		for _, informer := range c.caches {
			if err := informer.GetIndexer().Replace(nil, ""); err != nil {
				rt.Fatal(err)
			}
		}
		labels := func(what string) map[string]string {
			all := map[string]string{}
			for range rapid.IntRange(0, 3).Draw(rt, what) {
				all[rapid.SampledFrom([]string{"app", "tier", "team"}).Draw(rt, "key")] = rapid.SampledFrom([]string{"web", "db", "of-web", "x"}).Draw(rt, "value")
			}
			return all
		}
		names := []string{"web", "of-web", "db"}
		var sets []*v1alpha1.CloneSet
		for i, name := range names {
			set := &v1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(fmt.Sprint(i))}}
			switch rapid.IntRange(0, 4).Draw(rt, "selector") {
			case 0: // none
			case 1:
				set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "app", Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, "?"}).Draw(rt, "operator"), Values: []string{"web", "db"}},
				}}
			default:
				set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels("required")}
			}
			sets = append(sets, set)
			c.fill(rt, setsResource, set)
		}
		var objects []metav1.Object
		for i := range rapid.IntRange(1, 6).Draw(rt, "objects") {
			m := metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("o", i), UID: types.UID(fmt.Sprint("o", i)), Labels: labels("labels")}
			if owner := rapid.IntRange(0, 6).Draw(rt, "owner"); owner < len(sets) {
				m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sets[owner], v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))}
			}
			switch rapid.IntRange(0, 2).Draw(rt, "kind") {
			case 0:
				o := &corev1.Pod{ObjectMeta: m}
				objects = append(objects, o)
				c.fill(rt, podsResource, o)
			case 1:
				m.Labels[kruise.LabelInstanceID] = rapid.SampledFrom([]string{"", "x1", "x2"}).Draw(rt, "instance")
				m.Name = rapid.SampledFrom([]string{"data-web-x1", "data-of-web-x1", "data-web-x2", "web-x1", "x1", "-x1"}).Draw(rt, "claim") + rapid.SampledFrom([]string{"", fmt.Sprint("-", i)}).Draw(rt, "more")
				o := &corev1.PersistentVolumeClaim{ObjectMeta: m}
				objects = append(objects, o)
				c.fill(rt, claimsResource, o)
			default:
				o := &appsv1.ControllerRevision{ObjectMeta: m}
				objects = append(objects, o)
				c.fill(rt, revisionsResource, o)
			}
		}
		seen := map[string]bool{}
		for _, set := range sets {
			for _, pod := range c.orphans(set) {
				seen[set.Name+" "+string(pod.UID)] = true
			}
			for _, claim := range c.looseClaims(set) {
				seen[set.Name+" "+string(claim.UID)] = true
			}
			for _, resource := range []string{podsResource, claimsResource, revisionsResource} {
				owned, _ := c.caches[resource].GetIndexer().ByIndex(byOwner, string(set.UID))
				for _, o := range owned {
					seen[set.Name+" "+string(o.(metav1.Object).GetUID())] = true
				}
			}
			if match, err := cloneset.Matcher(set); err == nil {
				nobodys, _ := c.caches[revisionsResource].GetIndexer().ByIndex(orphaned, set.Namespace)
				for _, o := range nobodys {
					if o := o.(metav1.Object); match(o.GetLabels()) {
						seen[set.Name+" "+string(o.GetUID())] = true
					}
				}
			}
		}
		for _, o := range objects {
			keys := c.keysOf(o)
			for _, set := range sets {
				if seen[set.Name+" "+string(o.GetUID())] && !slices.Contains(keys, keyOf(set)) {
					rt.Fatalf("a plan of %s gets %T %s, and it does not wake the set: %v", set.Name, o, o.GetName(), keys)
				}
			}
		}
	})
}

// TestSameRevision checks that revisions are equal if they differ only in resourceVersion and managed fields.
func TestSameRevision(t *testing.T) {
	filled := func() *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{"a": "b"}}, Revision: 1}
	}
	for _, part := range []func(*appsv1.ControllerRevision) any{
		func(r *appsv1.ControllerRevision) any { return &r.ObjectMeta }, func(r *appsv1.ControllerRevision) any { return r },
	} {
		for i := range reflect.TypeOf(part(filled())).Elem().NumField() {
			r := filled()
			field := reflect.ValueOf(part(r)).Elem().Field(i)
			name := reflect.TypeOf(part(r)).Elem().Field(i).Name
			other, ok := map[string]any{
				"Labels": map[string]string{"a": "c"}, "Annotations": map[string]string{cloneset.AnnotationClaims: "[]"}, "Finalizers": []string{"x"},
				"OwnerReferences": []metav1.OwnerReference{{UID: "u"}}, "ManagedFields": []metav1.ManagedFieldsEntry{{Manager: "m"}},
				"CreationTimestamp": metav1.Unix(1, 0), "DeletionTimestamp": &metav1.Time{}, "DeletionGracePeriodSeconds": new(int64),
				"Data": appsv1.ControllerRevision{}.Data, "ObjectMeta": metav1.ObjectMeta{}, "TypeMeta": metav1.TypeMeta{Kind: "x"},
			}[name]
			switch {
			case name == "Data":
				r.Data.Raw = []byte("{}")
			case ok:
				field.Set(reflect.ValueOf(other))
			case field.Kind() == reflect.Int64:
				field.SetInt(field.Int() + 1)
			default:
				field.SetString(field.String() + "x")
			}
			if want := name == "ResourceVersion" || name == "ManagedFields"; same(filled(), r) != want {
				t.Errorf("%s: same %t", name, !want)
			}
		}
	}
}

// BenchmarkOrphan measures the event of a pod without a controller in a namespace of many sets. "every
// selector" compares all selectors, without an index.
func BenchmarkOrphan(b *testing.B) {
	const n = 2000
	c := newIdleInstance(b)
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		c.fill(b, setsResource, &v1alpha1.CloneSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
			Spec:       v1alpha1.CloneSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name, "managed-by": "someone-with-a-long-name"}}},
		})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"app": "web-7", "managed-by": "someone-with-a-long-name", "more": "yes"}}}
	every := func() (keys []key) {
		sets, _ := c.caches[setsResource].GetIndexer().ByIndex(cache.NamespaceIndex, pod.Namespace)
		for _, found := range sets {
			set := found.(*v1alpha1.CloneSet)
			if match, err := cloneset.Matcher(set); err == nil && match(pod.Labels) {
				keys = append(keys, keyOf(set))
			}
		}
		return keys
	}
	for name, keysOf := range map[string]func() []key{"index": func() []key { return c.keysOf(pod) }, "every selector": every} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if keys := keysOf(); len(keys) != 1 || keys[0].name != "web-7" {
					b.Fatal(keys)
				}
			}
		})
	}
}
