// Package rules decides which object of the group kwok.x-k8s.io configures a kubelet endpoint for a pod and a container or port, or the
// resource usage of a container. It also reads Metric objects, which select nothing.
//
// The objects are Logs, Attach, Exec, PortForward and ResourceUsage, for the pod with their own namespace and name, and their Cluster kinds, for
// the pods that their selector matches. The package reads them from files and from API objects, validates them and selects one.
// It performs no I/O: package kubeletapi reads the files, runs the commands and opens the connections that an entry names.
//
// Floor: F1. It is pure.
package rules

import (
	"fmt"
	"slices"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// Object is one object that configures an endpoint. E is the type of its entries.
type Object[E any] struct {
	Kind string
	// Namespace is empty for Cluster kinds.
	Namespace, Name string
	// File is the name of the file that contains the object, empty if the object is from the API.
	File string
	// Selector selects the pods of an object of a Cluster kind. nil selects all pods.
	Selector *v1alpha1.ObjectSelector
	Entries  []E
}

// String returns the kind and name of the object, and its file.
func (o Object[E]) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	if o.File != "" {
		return fmt.Sprintf("%s %s of file %s", o.Kind, name, o.File)
	}
	return o.Kind + " " + name
}

// Set contains objects by kind, each kind in the order in which the objects are to be asked.
type Set struct {
	Logs     []Object[v1alpha1.Log]
	Attaches []Object[v1alpha1.AttachConfig]
	Execs    []Object[v1alpha1.ExecTarget]
	Forwards []Object[v1alpha1.Forward]
	Usages   []Object[v1alpha1.ResourceUsageContainer]
	Metrics  []Metric
}

// Empty reports whether the set contains no object.
func (s *Set) Empty() bool {
	return len(s.Logs)+len(s.Attaches)+len(s.Execs)+len(s.Forwards)+len(s.Usages)+len(s.Metrics) == 0
}

// Match is the entry that applies to a request, and the object that contains it.
type Match[E any] struct {
	Object Object[E]
	Entry  E
}

// NoEntryError reports that the object of a pod has no entry for a container or port.
type NoEntryError struct{ Object, What string }

func (e *NoEntryError) Error() string { return fmt.Sprintf("%s has no entry for %s", e.Object, e.What) }

// Log selects the entry for the logs of a container. It returns nil if no object applies to the pod, and a *NoEntryError if
// the Logs object of the pod has no entry for the container.
func Log(objects []Object[v1alpha1.Log], namespace, pod, container string) (*Match[v1alpha1.Log], error) {
	return selectEntry(objects, namespace, pod, containerNamed(container), func(e v1alpha1.Log) []string { return e.Containers }, container)
}

// Attach selects the entry for clients that attach to a container, as Log does.
func Attach(objects []Object[v1alpha1.AttachConfig], namespace, pod, container string) (*Match[v1alpha1.AttachConfig], error) {
	return selectEntry(objects, namespace, pod, containerNamed(container), func(e v1alpha1.AttachConfig) []string { return e.Containers }, container)
}

// Exec selects the entry for commands in a container, as Log does.
func Exec(objects []Object[v1alpha1.ExecTarget], namespace, pod, container string) (*Match[v1alpha1.ExecTarget], error) {
	return selectEntry(objects, namespace, pod, containerNamed(container), func(e v1alpha1.ExecTarget) []string { return e.Containers }, container)
}

// PortForward selects the entry for connections to a port, as Log does.
func PortForward(objects []Object[v1alpha1.Forward], namespace, pod string, port int32) (*Match[v1alpha1.Forward], error) {
	return selectEntry(objects, namespace, pod, fmt.Sprintf("port %d", port), func(e v1alpha1.Forward) []int32 { return e.Ports }, port)
}

// Usages are the objects that define the resource usage of pods, indexed for lookups for many pods.
type Usages struct {
	byPod       map[string][]Object[v1alpha1.ResourceUsageContainer] // by namespace/name
	clusterWide []Object[v1alpha1.ResourceUsageContainer]
}

// NewUsages indexes objects. The first of the objects that apply to a container decides.
func NewUsages(objects []Object[v1alpha1.ResourceUsageContainer]) *Usages {
	u := &Usages{byPod: map[string][]Object[v1alpha1.ResourceUsageContainer]{}}
	for _, o := range objects {
		if o.Namespace == "" {
			u.clusterWide = append(u.clusterWide, o)
		} else {
			key := o.Namespace + "/" + o.Name
			u.byPod[key] = append(u.byPod[key], o)
		}
	}
	return u
}

// Of selects the entry for the usage of a container, as Log does. Without an entry for the container it returns nil.
func (u *Usages) Of(namespace, pod, container string) *Match[v1alpha1.ResourceUsageContainer] {
	if len(u.byPod)+len(u.clusterWide) == 0 {
		return nil
	}
	objects := u.clusterWide
	if own := u.byPod[namespace+"/"+pod]; len(own) > 0 {
		objects = own
	}
	// The error reports that the ResourceUsage of the pod has no entry for the container. Then the default applies.
	m, _ := selectEntry(objects, namespace, pod, containerNamed(container), func(e v1alpha1.ResourceUsageContainer) []string { return e.Containers }, container)
	return m
}

func containerNamed(name string) string { return fmt.Sprintf("container %q", name) }

// selectEntry asks the object with the pod's namespace and name, if it exists, and only it. Otherwise it returns the first match
// of the Cluster kinds, in the order of the list.
func selectEntry[E any, K comparable](objects []Object[E], namespace, pod, what string, keys func(E) []K, key K) (*Match[E], error) {
	for _, o := range objects {
		if o.Namespace == "" || o.Namespace != namespace || o.Name != pod {
			continue
		}
		if m := entryOf(o, keys, key); m != nil {
			return m, nil
		}
		return nil, &NoEntryError{Object: o.String(), What: what}
	}
	for _, o := range objects {
		if o.Namespace != "" || !selects(o.Selector, namespace, pod) {
			continue
		}
		if m := entryOf(o, keys, key); m != nil {
			return m, nil
		}
	}
	return nil, nil
}

// entryOf returns the first entry that names the key, else the first entry that names none.
func entryOf[E any, K comparable](o Object[E], keys func(E) []K, key K) *Match[E] {
	var rest *Match[E]
	for _, e := range o.Entries {
		switch named := keys(e); {
		case slices.Contains(named, key):
			return &Match[E]{Object: o, Entry: e}
		case len(named) == 0 && rest == nil:
			rest = &Match[E]{Object: o, Entry: e}
		}
	}
	return rest
}

// selects reports whether a selector matches a pod. An empty list matches every value.
func selects(s *v1alpha1.ObjectSelector, namespace, pod string) bool {
	if s == nil {
		return true
	}
	contains := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return contains(s.MatchNamespaces, namespace) && contains(s.MatchNames, pod)
}
