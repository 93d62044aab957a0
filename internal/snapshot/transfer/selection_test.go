package transfer

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// TestSelection selects objects of a file. The file defines Gadgets after their objects, as KWOK may write them, and has Pods of another group; the
// cluster serves ConfigMaps, Pods, ClusterRoles and Leases.
func TestSelection(t *testing.T) {
	var objects []*unstructured.Unstructured
	for _, text := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: b}}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: mine}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: a}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, namespace: a, labels: {app: web}}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, namespace: b, labels: {app: web}}}",
		"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g, namespace: a}}",
		"{apiVersion: example.org/v1, kind: Widget, metadata: {name: w, namespace: b}}",
		"{apiVersion: example.org/v1, kind: Pod, metadata: {name: p, namespace: b}}",
		"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgetry.example.com}, spec: {group: example.com, names: {kind: Gadget, plural: gadgetry, singular: gadget, shortNames: [gg]}}}",
	} {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	served := []resource{
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, kind: "ConfigMap", names: []string{"configmaps", "configmap", "cm"}},
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, kind: "Pod", names: []string{"pods", "pod", "po"}},
		{GroupVersionResource: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, kind: "ClusterRole", names: []string{"clusterroles", "clusterrole"}},
		{GroupVersionResource: schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, kind: "Lease", names: []string{"leases", "lease"}},
	}
	definition, spaces, role := "CustomResourceDefinition /gadgetry.example.com", []string{"Namespace /a", "Namespace /b"}, "ClusterRole /mine"
	maps := []string{"ConfigMap a/plain", "ConfigMap a/labelled", "ConfigMap b/labelled"}
	gadget, widget, otherPod := "Gadget a/g", "Widget b/w", "Pod b/p"
	for name, c := range map[string]struct {
		selection Selection
		want      []string
	}{
		"everything":              {Selection{}, slices.Concat(spaces, []string{role}, maps, []string{gadget, widget, otherPod, definition})},
		"kinds":                   {Selection{Only: []string{"cm", "clusterrole.rbac.authorization.k8s.io"}}, append([]string{role}, maps...)},
		"a kind of the file":      {Selection{Only: []string{"gg"}}, []string{gadget}},
		"the same with its group": {Selection{Only: []string{"Gadget.example.com"}}, []string{gadget}},
		"an undefined kind":       {Selection{Only: []string{"widgets.example.org"}}, []string{widget}},
		"a kind without objects":  {Selection{Only: []string{"pods"}}, nil},
		"a kind of another group": {Selection{Only: []string{"pods.example.org"}}, []string{otherPod}},
		"a namespace":             {Selection{Namespaces: []string{"a"}}, []string{"Namespace /a", "ConfigMap a/plain", "ConfigMap a/labelled", gadget}},
		"labels":                  {Selection{Selector: "app=web"}, slices.Concat(spaces, maps[1:], []string{definition})},
		"labels in a namespace":   {Selection{Selector: "app=web", Namespaces: []string{"b"}}, []string{"Namespace /b", maps[2]}},
		"a kind in a namespace":   {Selection{Only: []string{"configmaps"}, Namespaces: []string{"b"}}, []string{maps[2]}},
		"no namespace, by name":   {Selection{Only: []string{"clusterroles", "namespaces"}, Namespaces: []string{"b"}}, []string{"Namespace /b", role}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.selection.selector(served)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				s.observe(o)
			}
			var got []string
			for _, o := range objects {
				if s.selects(o) {
					got = append(got, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if err := s.unknown(); err != nil {
				t.Error(err)
			}
		})
	}

	s, err := Selection{Only: []string{"cm", "gadgts"}}.selector(served)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		s.observe(o)
	}
	if err := s.unknown(); err == nil || !strings.HasPrefix(err.Error(), `neither the API server nor the file has a kind "gadgts"; nearest names: gadgetry,`) {
		t.Error(err)
	}
	if _, err := (Selection{Only: []string{"lease"}}).selector(served); err == nil || err.Error() != `kind "lease" is never part of a snapshot: their holders do not exist in another cluster` {
		t.Error(err)
	}
	if _, err := (Selection{Selector: "a=("}).selector(nil); err == nil || !strings.HasPrefix(err.Error(), `selector "a=(": `) {
		t.Error(err)
	}
}
