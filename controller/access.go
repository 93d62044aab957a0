package controller

import corev1 "k8s.io/api/core/v1"

// Access is a right that the engine needs from the API server, as a rule of
// RBAC says it. An empty namespace means all of them.
type Access struct {
	Group, Resource, Namespace string
	Verbs                      []string
}

// Access lists the rights that an engine with these options needs. Stages may
// change or delete any object they are for, so the root resources are in it.
func (o StageOptions) Access() []Access {
	out := []Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "watch", "update", "delete"}},
		{Resource: "nodes/status", Verbs: []string{"update"}},
		{Resource: "pods", Verbs: []string{"get", "list", "watch", "update", "delete"}},
		{Resource: "pods/status", Verbs: []string{"update"}},
		{Resource: "events", Verbs: []string{"create"}},
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
