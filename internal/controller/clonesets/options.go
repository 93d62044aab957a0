package clonesets

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// Options configure the controller.
type Options struct {
	// Workers is how many CloneSets are reconciled concurrently (10).
	Workers int
	// Writes is how many objects of one CloneSet are written concurrently (16).
	Writes int
	// Limits of plans (cloneset.DefaultLimits).
	Limits cloneset.Limits
	// Events is the client for Events, which have a rate limit of their own; nil sends none.
	Events *rest.Config
	// Audit is how often the caches are compared with the API, to detect an event that was lost for good
	// (10 minutes; negative: never).
	Audit time.Duration
	// Pods, if it is not nil, is the shared cache that pods are read from, instead of a watch of the
	// controller's own. After an audit has found a wrong cache, the controller watches pods itself.
	Pods *podcache.Cache
	// Whole sends whole pods (PUT) where the planner knows the result of a patch. An in-place update then costs the API server a quarter less
	// (BenchmarkPodWrites in apiserver). Set it only if the API server has this program's version: of a
	// newer one it would drop the fields that this program does not know.
	Whole bool
	// Metrics, if it is not nil, counts what the controller does.
	Metrics *Metrics
	// Lead, if it is not nil, is closed when this instance becomes the leader. The controller reads nothing
	// before, so that it starts with all writes of the previous leader.
	Lead <-chan struct{}
}

func (o *Options) complete() {
	if o.Workers <= 0 {
		o.Workers = 10
	}
	if o.Writes <= 0 {
		o.Writes = 16
	}
	if o.Audit == 0 {
		o.Audit = 10 * time.Minute
	}
	if o.Limits == (cloneset.Limits{}) {
		o.Limits = cloneset.DefaultLimits
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
}

// Access lists the permissions that the controller needs.
func (o Options) Access() []reconcile.Access {
	change := []string{"patch"}
	if o.Whole {
		change = append(change, "update")
	}
	return []reconcile.Access{
		{Group: kruise.GroupName, Resource: v1alpha1.Resource, Verbs: []string{"get", "list", "watch", "patch"}},
		{Group: kruise.GroupName, Resource: v1alpha1.Resource + "/status", Verbs: []string{"update"}},
		// For blockOwnerDeletion, if the admission plugin OwnerReferencesPermissionEnforcement is on.
		{Group: kruise.GroupName, Resource: v1alpha1.Resource + "/finalizers", Verbs: []string{"update"}},
		{Group: appsv1.GroupName, Resource: revisionsResource, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{Group: corev1.GroupName, Resource: podsResource, Verbs: append([]string{"get", "list", "watch", "create", "delete"}, change...)},
		{Group: corev1.GroupName, Resource: podsResource + "/status", Verbs: change},
		{Group: corev1.GroupName, Resource: podsResource + "/resize", Verbs: []string{"patch"}},
		{Group: corev1.GroupName, Resource: claimsResource, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{Group: corev1.GroupName, Resource: "nodes", Verbs: []string{"list", "watch"}}, // for topology spread constraints
		{Resource: "events", Verbs: []string{"create", "patch"}},
	}
}

// The resources that are written.
const (
	setsResource      = v1alpha1.Resource
	podsResource      = "pods"
	claimsResource    = "persistentvolumeclaims"
	revisionsResource = "controllerrevisions"
)
