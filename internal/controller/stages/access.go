package stages

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// Access is a right that the engine needs from the API server, as a rule of
// RBAC says it. An empty namespace means all of them.
type Access struct {
	Group, Resource, Namespace string
	Verbs                      []string
}

// Access lists the rights that an engine with these options needs for nodes, pods
// and what belongs to them. Stages may change or delete any object they are for, so
// the root resources are in it. Stages for other kinds need rights for those kinds,
// which only the API knows the resources of.
func (o StageOptions) Access() []Access {
	out := []Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "watch", "update", "patch", "delete"}},
		{Resource: "nodes/status", Verbs: []string{"update", "patch"}},
		{Resource: "pods", Verbs: []string{"get", "list", "watch", "update", "patch", "delete"}},
		{Resource: "pods/status", Verbs: []string{"update", "patch"}},
		{Resource: "events", Verbs: []string{"create"}},
	}
	if o.Watch {
		out = append(out,
			Access{Group: v1alpha1.GroupVersion.Group, Resource: "stages", Verbs: []string{"get", "list", "watch"}},
			Access{Group: v1alpha1.GroupVersion.Group, Resource: "stages/status", Verbs: []string{"patch"}})
	}
	if o.LeaseDuration >= 0 {
		out = append(out, Access{
			Group: "coordination.k8s.io", Resource: "leases", Namespace: corev1.NamespaceNodeLease,
			Verbs: []string{"get", "list", "create", "update"},
		})
	}
	return out
}

// Validate finds what NewStageEngine would refuse.
func (o StageOptions) Validate() error {
	_, _, err := o.complete()
	return err
}
