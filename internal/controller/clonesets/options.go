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

// Options say what the controller does. The zero value looks after all CloneSets.
type Options struct {
	// Workers is how many sets are looked after at the same time (10).
	Workers int
	// Writes is how many objects of one set are written at the same time (16).
	Writes int
	// Limits of plans (cloneset.DefaultLimits).
	Limits cloneset.Limits
	// Events is the client that Events are sent with, so that they have a budget of
	// their own and hold up nothing; nil sends none.
	Events *rest.Config
	// Audit is how often the caches are compared with the API, for the day on which an
	// event is lost for good (10 minutes; less than 0 for never).
	Audit time.Duration
	// Pods, if it is not nil, are what the controller sees of pods, in place of a watch of its
	// own, until an audit finds that a cache has departed from the API: from then on
	// it reads for itself.
	Pods *podcache.Cache
	// Whole sends pods whole (PUT) where plans say how they are afterwards, and patches where not
	// and where somebody else wrote in between. The writes of an update in place cost the API
	// server a quarter less (BenchmarkPodWrites in apiserver). A server of a newer version would
	// lose the fields that this program does not know, so it is for those of the same version.
	Whole bool
	// Metrics, if it is not nil, is told what happens.
	Metrics *Metrics
	// Lead, if it is not nil, is closed when this instance may begin. Only then does it
	// read anything, so that it begins with all that the one before it has written.
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
}

// Access lists the rights that the controller needs.
func (o Options) Access() []reconcile.Access {
	change := []string{"patch"}
	if o.Whole {
		change = append(change, "update")
	}
	return []reconcile.Access{
		{Group: kruise.GroupName, Resource: v1alpha1.Resource, Verbs: []string{"get", "list", "watch", "patch"}},
		{Group: kruise.GroupName, Resource: v1alpha1.Resource + "/status", Verbs: []string{"update"}},
		// The API may ask for it of those who make owners wait for what they own.
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
