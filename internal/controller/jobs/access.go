package jobs

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// Access lists the rights that the controller needs.
func (o Options) Access() []reconcile.Access {
	return []reconcile.Access{
		{Group: batchv1.GroupName, Resource: "jobs", Verbs: []string{"get", "list", "watch"}},
		{Group: batchv1.GroupName, Resource: "jobs/status", Verbs: []string{"update"}},
		// The API may ask for it of those who make owners wait for what they own.
		{Group: batchv1.GroupName, Resource: "jobs/finalizers", Verbs: []string{"update"}},
		{Resource: "pods", Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{Resource: "events", Verbs: []string{"create", "patch"}},
	}
}
