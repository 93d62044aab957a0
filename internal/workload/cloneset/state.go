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

// State is the input of a plan. Its objects are shared and must not be changed.
type State struct {
	// Set is the CloneSet as the cache shows it, with the API's defaults. Digest is that of its
	// template.
	Set    *v1alpha1.CloneSet
	Digest string
	// Pods are all pods that the set controls, sorted by name; Orphans are the pods of the namespace
	// that have no controller and may match the selector.
	Pods, Orphans []*Pod
	// Claims are the claims that the set controls, sorted by name; LooseClaims are those of the
	// namespace that have no controller and whose names are those of claims of this set (ClaimedBy).
	Claims, LooseClaims []*Claim
	// Revisions are the revisions that the set controls, in any order.
	Revisions []*Revision
	// Nodes are the labels of nodes, for topology spread constraints; nil if unknown.
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
	// Marked: the claim is deleted after its pod.
	Marked, Terminating bool
}

// ViewClaim returns the Claim of an object.
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

// ClaimedBy returns the names of the sets that may have named the claim, the longest last.
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

// Same reports whether two claims are equal for every plan.
func (c *Claim) Same(d *Claim) bool {
	a, b := *c, *d
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
}

// Revision is a decoded ControllerRevision.
type Revision struct {
	Object *appsv1.ControllerRevision
	// Template is the recorded template, Defaulted the template with the API's defaults, and Digest
	// that of Defaulted.
	Template, Defaulted *corev1.PodTemplateSpec
	Digest              string
	// Claims are the claim templates of the set at the time when the revision was created.
	Claims []corev1.PersistentVolumeClaim
}

// Past is what one process remembers of a set. The zero value is that of a process that has just
// started.
type Past struct {
	// StatusAt is when the status was last written.
	StatusAt time.Time
	// CreateLimit is how many pods one plan may create, 0 for Limits.Pods: 1 after a create has
	// failed, then twice as many after each plan whose creates succeed. While the set has
	// generation RetryOf, no pod is created before RetryAt.
	CreateLimit int
	RetryAt     time.Time
	RetryOf     int64
	// Taken are names in use by objects of others. Failed are names of pods whose create failed; they
	// are tried after other names.
	Taken, Failed map[string]bool
	// Rejected are the objects whose last write the API has rejected, or that could not be written for
	// a long time.
	Rejected map[types.UID]bool
	// Rollout is the rollout of the update revision, for metrics.
	Rollout Rollout
	// ScaleError and UpdateError are the errors of the last writes, "" if they succeeded.
	ScaleError, UpdateError string
}

// Rollout is the progress of a revision.
type Rollout struct {
	Revision string
	Began    time.Time
	// Over: all pods have been updated and available.
	Over bool
}

// Limits are constants that tests change.
type Limits struct {
	// Pods is the maximal number of pods that one plan creates, deletes, updates and advances, of
	// each. It bounds how long one set occupies a worker (250).
	Pods int
	// StatusPause is the time between two status writes that change only numbers of pods (1 s).
	StatusPause time.Duration
	// HookTimeout is how long a pod waits for a hook before the status reports it (30 s).
	HookTimeout time.Duration
}

// DefaultLimits are the limits that the controller uses by default.
var DefaultLimits = Limits{Pods: 250, StatusPause: time.Second, HookTimeout: 30 * time.Second}

// Decision is the decision for one CloneSet: the writes, the status, and what the process remembers.
type Decision struct {
	workload.Decision
	// Status is written first, if it is not nil. If the API rejects it because the set has
	// changed, nothing else is carried out.
	Status *v1alpha1.CloneSetStatus
	// Past is what the process remembers until the next plan.
	Past Past
	// Tally is for metrics.
	Tally Tally

	// stuck is why a pod cannot be updated in place, limited why no pod can be created.
	stuck, limited string
}

// Tally contains the numbers of a decision that the metrics report.
type Tally struct {
	// Created, Deleted, Updated and Moved are numbers of pods in Actions: created, deleted, updated
	// in place, and moved to another state of their lifecycle.
	Created, Deleted, Updated, Moved int
	// States counts the active pods by the state of their lifecycle.
	States map[string]int
	// RolledOut is the duration of the rollout that ends with this status, 0 if none does.
	RolledOut time.Duration
}
