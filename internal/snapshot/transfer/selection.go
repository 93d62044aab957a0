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

// selector selects the objects of a file. All of them must have been observed before the first is selected.
type selector struct {
	Selection
	labels labels.Selector
	served map[schema.GroupKind]bool     // the kinds of the cluster that Only names
	others []string                      // the names in Only that are no kind of the cluster: a kind of the file, perhaps
	names  map[schema.GroupKind][]string // of the kinds that the cluster serves, that the file defines, or of which it has objects
}

// selector returns a selector for a cluster that serves the given kinds, in its order of preference.
func (s Selection) selector(served []resource) (*selector, error) {
	out := &selector{Selection: s, served: map[schema.GroupKind]bool{}, names: map[schema.GroupKind][]string{}}
	var err error
	if out.labels, err = labels.Parse(s.Selector); err != nil {
		return nil, &OptionError{fmt.Sprintf("selector %q: %v", s.Selector, err)}
	}
	for _, r := range served {
		out.names[r.groupKind()] = r.names
	}
	for _, name := range s.Only {
		r, ok, err := find(served, name)
		switch {
		case err != nil:
			return nil, err
		case ok:
			out.served[r.groupKind()] = true
		default:
			out.others = append(out.others, name)
		}
	}
	return out, nil
}

// everything reports whether all objects are selected.
func (s *selector) everything() bool {
	return len(s.Only) == 0 && len(s.Namespaces) == 0 && s.labels.Empty()
}

// observe remembers the names of the kind of an object, and those that a definition defines.
func (s *selector) observe(obj *unstructured.Unstructured) {
	k := obj.GroupVersionKind().GroupKind()
	if k == snapshot.CRD {
		s.define(obj)
	}
	if _, ok := s.names[k]; !ok { // until its definition is observed
		plural, singular := meta.UnsafeGuessKindToResource(k.WithVersion(""))
		s.names[k] = []string{plural.Resource, singular.Resource}
	}
}

// selects reports whether an object of the file is selected.
func (s *selector) selects(obj *unstructured.Unstructured) bool {
	k := obj.GroupVersionKind().GroupKind()
	named := s.served[k] || slices.ContainsFunc(s.others, s.kind(k).matches)
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

// kind returns a kind with its names.
func (s *selector) kind(k schema.GroupKind) resource {
	names := s.names[k]
	return resource{GroupVersionResource: schema.GroupVersionResource{Group: k.Group, Resource: names[0]}, kind: k.Kind, names: names}
}

// unknown returns an error for a name in Only that is no kind of the cluster or of the file.
func (s *selector) unknown() error {
	var all []resource
	for k := range s.names {
		all = append(all, s.kind(k))
	}
	slices.SortFunc(all, func(a, b resource) int { return strings.Compare(a.Resource+"."+a.Group, b.Resource+"."+b.Group) })
	for _, name := range s.others {
		if !slices.ContainsFunc(all, func(r resource) bool { return r.matches(name) }) {
			return &OptionError{fmt.Sprintf("neither the API server nor the file has a kind %q; nearest names: %s", name, strings.Join(nearest.Names(name, known(all), 3), ", "))}
		}
	}
	return nil
}
