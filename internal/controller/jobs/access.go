package jobs

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// Access lists the permissions that the controller needs.
func (o Options) Access() []reconcile.Access {
	return []reconcile.Access{
		{Group: batchv1.GroupName, Resource: "jobs", Verbs: []string{"get", "list", "watch"}},
		{Group: batchv1.GroupName, Resource: "jobs/status", Verbs: []string{"update"}},
		// For blockOwnerDeletion, if the admission plugin OwnerReferencesPermissionEnforcement is on.
		{Group: batchv1.GroupName, Resource: "jobs/finalizers", Verbs: []string{"update"}},
		{Resource: "pods", Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{Resource: "events", Verbs: []string{"create", "patch"}},
	}
}
