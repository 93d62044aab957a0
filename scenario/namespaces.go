package scenario

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Namespaces returns the namespaces of the scenario's objects and of what its steps delete or patch, sorted,
// and default if there are none. An object without a namespace counts for default, unless its kind is known
// as cluster-scoped.
func (s *Scenario) Namespaces() []string {
	all := map[string]bool{}
	note := func(content map[string]any) {
		o := &unstructured.Unstructured{Object: content}
		switch ns := o.GetNamespace(); {
		case ns != "":
			all[ns] = true
		case !isInNone(o.GetKind()):
			all[metav1.NamespaceDefault] = true
		}
	}
	for _, o := range s.Objects {
		note(o)
	}
	for i := range s.Steps {
		for _, o := range s.Steps[i].Objects {
			note(o)
		}
		if ns := s.Steps[i].On.Namespace; ns != "" {
			all[ns] = true
		}
	}
	if len(all) == 0 {
		all[metav1.NamespaceDefault] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// isInNone reports whether objects of a built-in kind of Kubernetes are cluster-scoped.
func isInNone(kind string) bool {
	lower := strings.ToLower(kind)
	for resource := range inNone {
		plural, _, _ := strings.Cut(resource, ".")
		if plural == lower+"s" || plural == lower+"es" || plural == strings.TrimSuffix(lower, "y")+"ies" {
			return true
		}
	}
	return false
}
