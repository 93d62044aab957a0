package stages

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// Access lists the permissions that an engine with these options needs for nodes, pods, their leases and their
// Events. A stage may patch or delete any object that it selects, so the list has these verbs for the
// resources themselves, not only for their status. Stages for other kinds need permissions for those kinds,
// whose resources only API discovery knows.
func (o StageOptions) Access() []reconcile.Access {
	out := []reconcile.Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "watch", "update", "patch", "delete"}},
		{Resource: "nodes/status", Verbs: []string{"update", "patch"}},
		{Resource: "pods", Verbs: []string{"get", "list", "watch", "update", "patch", "delete"}},
		{Resource: "pods/status", Verbs: []string{"update", "patch"}},
		{Resource: "events", Verbs: []string{"create"}},
	}
	if o.Watch {
		out = append(out,
			reconcile.Access{Group: v1alpha1.GroupVersion.Group, Resource: "stages", Verbs: []string{"get", "list", "watch"}},
			reconcile.Access{Group: v1alpha1.GroupVersion.Group, Resource: "stages/status", Verbs: []string{"patch"}})
	}
	if o.LeaseDuration >= 0 {
		out = append(out, reconcile.Access{
			Group: "coordination.k8s.io", Resource: "leases", Namespace: corev1.NamespaceNodeLease,
			Verbs: []string{"get", "list", "create", "update"},
		})
	}
	return out
}

// Validate returns the error that NewStageEngine would return for these options.
func (o StageOptions) Validate() error {
	_, _, err := o.complete()
	return err
}
