package transfer

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/internal/nearest"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// Selection selects objects, those of a cluster to save or those of a file to restore. The empty one selects all.
type Selection struct {
	Only       []string // kinds, as for kubectl: pods, po, deployments.apps, Widget.example.com; empty: all
	Namespaces []string // empty: all, and objects without a namespace
	Selector   string   // of labels; it does not apply to namespaces and definitions of kinds
}

// selector selects the objects of a file. The names of a kind are those that the cluster knows, and those of its definition in the
// file, which precedes its objects.
type selector struct {
	Selection
	labels labels.Selector
	names  map[schema.GroupKind][]string // of a kind that the cluster serves or the file defines
	kinds  map[schema.GroupKind]bool     // whether Only names the kind of an object of the file
}

// selector returns a selector for a cluster that serves the given kinds.
func (s Selection) selector(served []resource) (*selector, error) {
	out := &selector{Selection: s, names: map[schema.GroupKind][]string{}, kinds: map[schema.GroupKind]bool{}}
	var err error
	if out.labels, err = labels.Parse(s.Selector); err != nil {
		return nil, &OptionError{fmt.Sprintf("selector %q: %v", s.Selector, err)}
	}
	for _, r := range served {
		out.names[r.groupKind()] = r.names
	}
	return out, nil
}

// selects reports whether an object of the file is selected.
func (s *selector) selects(obj *unstructured.Unstructured) bool {
	k := obj.GroupVersionKind().GroupKind()
	if k == snapshot.CRD {
		s.define(obj)
	}
	named, known := s.kinds[k]
	if !known {
		named = slices.ContainsFunc(s.Only, func(name string) bool { return s.kind(k).matches(name) })
		s.kinds[k] = named
	}
	switch {
	case len(s.Only) > 0 && !named:
		return false
	case k != namespaceKind && k != snapshot.CRD && !s.labels.Matches(labels.Set(obj.GetLabels())):
		return false
	case len(s.Namespaces) == 0:
		return true
	case k == namespaceKind:
		return slices.Contains(s.Namespaces, obj.GetName())
	case obj.GetNamespace() == "":
		return named
	}
	return slices.Contains(s.Namespaces, obj.GetNamespace())
}

// define remembers the names of a kind that the file defines.
func (s *selector) define(definition *unstructured.Unstructured) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	names, _, _ := unstructured.NestedMap(definition.Object, "spec", "names")
	text := func(key string) string { v, _ := names[key].(string); return v }
	short, _, _ := unstructured.NestedStringSlice(definition.Object, "spec", "names", "shortNames")
	k := schema.GroupKind{Group: group, Kind: text("kind")}
	s.names[k] = append([]string{text("plural"), text("singular"), strings.ToLower(k.Kind)}, short...)
}

// kind returns a kind with its names. Those of a kind that neither the cluster nor the file defines are guessed.
func (s *selector) kind(k schema.GroupKind) resource {
	plural, singular := meta.UnsafeGuessKindToResource(k.WithVersion(""))
	names := s.names[k]
	if len(names) == 0 {
		names = []string{plural.Resource, singular.Resource}
	}
	plural.Resource = names[0]
	return resource{GroupVersionResource: plural, kind: k.Kind, names: names}
}

// unknown returns an error for a name in Only that is no kind of the cluster or of the file. All objects of the file must have been
// asked for.
func (s *selector) unknown() error {
	var all []resource
	for k := range s.names {
		all = append(all, s.kind(k))
	}
	for k := range s.kinds {
		all = append(all, s.kind(k))
	}
	slices.SortFunc(all, func(a, b resource) int { return strings.Compare(a.Resource+"."+a.Group, b.Resource+"."+b.Group) })
	for _, name := range s.Only {
		if !slices.ContainsFunc(all, func(r resource) bool { return r.matches(name) }) {
			return &OptionError{fmt.Sprintf("neither the API server nor the file has a kind %q; nearest names: %s", name, strings.Join(nearest.Names(name, known(all), 3), ", "))}
		}
	}
	return nil
}
