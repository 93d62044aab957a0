package cloneset

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// State is what a plan is made from. Objects are shared and not changed.
type State struct {
	// Set as the cache shows it, with the API's defaults, and the digest of its template.
	Set    *v1alpha1.CloneSet
	Digest string
	// Pods are all that the set controls, sorted by name; Orphans are those of the namespace
	// without a controller that may match.
	Pods, Orphans []*Pod
	// Claims are those that the set controls, sorted by name; LooseClaims are those of the
	// namespace without a controller whose names a set of this name has given (ClaimedBy).
	Claims, LooseClaims []*Claim
	// Revisions are those that the set controls, in any order.
	Revisions []*Revision
	// Nodes are the labels of nodes, for topology spread constraints; nil if nobody knows.
	Nodes map[string]map[string]string

	Past   Past
	Limits Limits
}

// Claim is what a plan reads of a PersistentVolumeClaim.
type Claim struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	// Controller is the UID of the claim's controller, "" if it has none.
	Controller types.UID
	// Instance is the pod's instance-id.
	Instance string
	// Marked says that it goes when its pod does: that one is to be deleted.
	Marked, Terminating bool
}

// ViewClaim makes the Claim of an object.
func ViewClaim(o *corev1.PersistentVolumeClaim) *Claim {
	_, marked := o.Labels[kruise.LabelSpecifiedDelete]
	c := &Claim{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		Instance: o.Labels[labelInstance], Marked: marked, Terminating: o.DeletionTimestamp != nil,
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		c.Controller = ref.UID
	}
	return c
}

// ClaimedBy are the names of the sets that may have given a claim its name, the longest last.
func (c *Claim) ClaimedBy() (sets []string) {
	if c.Instance == "" {
		return nil
	}
	rest, found := strings.CutSuffix(c.Name, "-"+c.Instance)
	for i := len(rest) - 1; found && i > 0; i-- {
		if rest[i] == '-' && i+1 < len(rest) {
			sets = append(sets, rest[i+1:])
		}
	}
	return sets
}

// Same tells whether a plan can see no difference between two.
func (c *Claim) Same(d *Claim) bool {
	a, b := *c, *d
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
}

// Revision is a ControllerRevision, read.
type Revision struct {
	Object *appsv1.ControllerRevision
	// Template is what it holds, Defaulted the same with what the API fills in; Digest is
	// that of Defaulted.
	Template, Defaulted *corev1.PodTemplateSpec
	Digest              string
	// Claims are the claim templates that were in the set when it was made.
	Claims []corev1.PersistentVolumeClaim
}

// Past is what one process remembers of a set. The zero value is that of a process that
// has just begun.
type Past struct {
	// StatusAt is when the status was last written.
	StatusAt time.Time
	// CreateLimit is how many pods one plan may create, 0 for Limits.Pods: 1 after a create has
	// failed, then twice as many after each plan whose creates succeed. While the set has
	// generation RetryOf, no pod is created before RetryAt.
	CreateLimit int
	RetryAt     time.Time
	RetryOf     int64
	// Taken are names that somebody else's objects bear. Failed are names of pods that
	// could not be made; they are tried after others.
	Taken, Failed map[string]bool
	// Refused are objects whose last write the API refused, or that could not be written for long.
	Refused map[types.UID]bool
	// Rollout is that of the template's revision, for metrics.
	Rollout Rollout
	// ScaleError and UpdateError are why writes failed the last time, "" if they did not.
	ScaleError, UpdateError string
}

// Rollout is how far a revision has come.
type Rollout struct {
	Revision string
	Began    time.Time
	// Over: all pods were updated and available.
	Over bool
}

// Limits are the numbers that tests want to change.
type Limits struct {
	// Pods is how many pods one plan makes, deletes, updates and moves on at most, of each.
	// It is what one set may hold a worker for while others wait (250).
	Pods int
	// StatusPause is the time between two status writes that tell of nothing but numbers of
	// pods (1 s).
	StatusPause time.Duration
	// HookPatience is how long a pod waits for a hook before the status says so (30 s).
	HookPatience time.Duration
}

// DefaultLimits are what the controller uses unless told otherwise.
var DefaultLimits = Limits{Pods: 250, StatusPause: time.Second, HookPatience: 30 * time.Second}

// Decision is what to do now.
type Decision struct {
	workload.Decision
	// Status is written first, if it is not nil. If the API rejects it because the set has
	// changed, nothing else is carried out.
	Status *v1alpha1.CloneSetStatus
	// Past is what the process remembers until the next plan.
	Past Past
	// Tally is for metrics.
	Tally Tally

	// stuck is why a pod cannot be updated in place, limited why no pod ever can be.
	stuck, limited string
}

// Tally are the numbers of a decision that metrics tell.
type Tally struct {
	// Created, Deleted, Updated and Moved are pods in Actions: made, deleted, updated in
	// place, and brought to another state of their life.
	Created, Deleted, Updated, Moved int
	// States are active pods by the state of their life.
	States map[string]int
	// RolledOut is how long the update took that ends with this status, 0 if none does.
	RolledOut time.Duration
}
