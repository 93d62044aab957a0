package cloneset

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// plan is the state of one decision while Plan computes it.
type plan struct {
	State
	now    time.Time
	set    *v1alpha1.CloneSet
	wanted wanted
	// unreadable is the error about a number of the spec that cannot be read.
	unreadable error

	// updateRevision is the revision of the template, nil while it does not exist yet.
	// currentRevision is that of the pods that the partition keeps.
	updateRevision, currentRevision *Revision
	byLabel                         map[string]*Revision
	changes                         map[[2]*Revision]*change
	lastKey                         [2]*Revision // the last key of changes, with its value
	lastChange                      *change
	splits                          map[*change]parts
	updating                        map[*Revision]map[string]*string
	stamped                         string // now, formatted for annotations

	toDelete map[string]bool // the names in podsToDelete

	// unadoptable are pods that could not be adopted or released. They are not the set's, but
	// their names are in use.
	unadoptable []*Pod

	units    []unit // the active pods
	inactive []*Pod // the other pods
	claimsBy map[string][]*Claim
	marks    int // the pods and claims that this plan marks for deletion
	diff     difference
	// outdated and updated partition the active pods by whether they run the update revision.
	outdated, updated group

	decision Decision
}

// unit is an active pod, and what this plan has decided for it.
type unit struct {
	*Pod
	of *Revision // the pod's revision, nil if it is unknown
	// isUpdated: the pod has the update revision, or waits for its hook to be updated to it.
	isUpdated, isAvailable bool
	// specified: a user asked for the pod's deletion, by name or label.
	specified bool
	// cancelsUpdate: the pod waits for an update that is not wanted any more.
	cancelsUpdate bool
	// acted: a step of this plan has claimed the pod.
	acted bool

	update *kruise.InPlaceUpdateState
	named  *corev1.Pod
}

// object returns the part of the pod that a write needs.
func (u *unit) object() *corev1.Pod {
	if u.named == nil {
		u.named = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Name, UID: u.UID, ResourceVersion: u.ResourceVersion}}
	}
	return u.named
}

// step is one step of a plan.
type step struct {
	name string
	run  func(*plan)
	// claims: the step may claim a pod. A plan does at most one thing to a pod, so a step skips the
	// pods that an earlier step has claimed.
	claims bool
	// spends names the budgets that the step takes from; later steps get what is left. Budgets are
	// fields of difference, of Limits and of Past.
	spends string
	// withoutRevision: the step also runs while the update revision does not exist yet.
	withoutRevision bool
}

// steps are the steps of a plan, in their order.
var steps = []step{
	{name: "compare pods with the spec", run: (*plan).compare},
	{name: "cancel unwanted updates", run: (*plan).cancelUpdates},
	{name: "advance lifecycles", run: (*plan).advanceAll, claims: true, spends: "4×Limits.Pods actions"},
	{name: "cancel unneeded deletions", run: (*plan).cancelDeletions, claims: true, spends: "create"},
	{name: "replace finished pods", run: (*plan).replaceFinished, spends: "Limits.Pods deletions"},
	{name: "continue deletions after the hook", run: (*plan).continueDeletions, claims: true, spends: "Limits.Pods deletions"},
	{name: "delete specified pods", run: (*plan).deleteSpecified, claims: true, spends: "spare, Limits.Pods deletions"},
	{name: "scale down", run: (*plan).scaleDown, claims: true, spends: "remove, spare, Limits.Pods deletions"},
	{name: "scale up", run: (*plan).scaleUp, spends: "createLimit, Past.CreateLimit, room"},
	{name: "roll out", run: (*plan).rollOut, claims: true, spends: "update, unavailable, spare, room, Limits.Pods updates"},
	{name: "finish ordered updates", run: (*plan).finishOrders, claims: true},
	{name: "create missing claims", run: (*plan).repairClaims, spends: "4×Limits.Pods actions"},
	{name: "delete unused claims", run: (*plan).tidyClaims, spends: "4×Limits.Pods actions"},
	{name: "delete old revisions", run: (*plan).deleteRevisions},
	{name: "write the status", run: (*plan).writeStatus, withoutRevision: true},
	{name: "remove names from podsToDelete", run: (*plan).tidyNames, withoutRevision: true},
}

// Plan decides the next writes. It is pure: the same state gives the same decision.
func Plan(now time.Time, s State) Decision {
	p := newPlan(now, s)
	if s.Set.DeletionTimestamp != nil {
		p.decision.Because("Deleting", "the CloneSet is being deleted: its pods are left to the garbage collector")
		return p.decision
	}
	if p.claimOwnership() {
		return p.decision
	}
	p.prepare()
	for _, step := range steps {
		if step.withoutRevision || p.updateRevision != nil {
			step.run(p)
		}
	}
	// If the API accepts a status, the set is as the cache shows it. Without a status, another
	// instance or a user may have changed the set.
	acts := p.decision.Tally.Created+p.decision.Tally.Deleted+p.decision.Tally.Updated > 0
	p.decision.Recheck = p.decision.Status == nil && (p.updateRevision == nil || acts)
	return p.decision
}

func newPlan(now time.Time, s State) *plan {
	p := &plan{State: s, now: now, set: s.Set}
	p.decision.Past = s.Past
	return p
}

// prepare reads the spec, the revisions and the pods.
func (p *plan) prepare() {
	p.wanted, p.unreadable = resolve(p.set)
	if p.unreadable != nil {
		p.decision.Because("BadNumber", "%s", p.unreadable)
	}
	p.findRevisions()
	p.classify()
}

// Unreadable returns the decision about a CloneSet that the API accepts but that cannot be
// decoded: the status reports why, and the pods stay as they are.
func Unreadable(now time.Time, set *v1alpha1.CloneSet, why string) (d Decision) {
	is := set.Status.DeepCopy()
	is.ObservedGeneration = set.Generation
	for _, kind := range []v1alpha1.CloneSetConditionType{v1alpha1.FailedScale, v1alpha1.FailedUpdate} {
		if c := condition(is, kind); c == nil || c.Message != why {
			d.Events = []workload.Event{{Warning: true, Reason: "Unreadable", Message: why}}
		}
		setCondition(is, v1alpha1.CloneSetCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Unreadable", Message: why}, now)
	}
	if !equality.Semantic.DeepEqual(is, &set.Status) {
		d.Status = is
	}
	return d
}

// classify separates active from inactive pods and derives what steps read of each active pod.
func (p *plan) classify() {
	p.toDelete = make(map[string]bool, len(p.set.Spec.ScaleStrategy.PodsToDelete))
	for _, name := range p.set.Spec.ScaleStrategy.PodsToDelete {
		p.toDelete[name] = true
	}
	minReady := time.Duration(p.set.Spec.MinReadySeconds) * time.Second
	units, n := make([]unit, len(p.Pods)), 0
	for _, pod := range p.Pods {
		if !pod.active {
			p.inactive = append(p.inactive, pod)
			continue
		}
		u := &units[n] // filled in place: a copy costs more than reading the pod
		n++
		u.Pod, u.of = pod, p.revisionOf(pod)
		u.isUpdated = p.updateRevision != nil && u.of == p.updateRevision || pod.state == kruise.StatePreparingUpdate
		u.specified = pod.marked || len(p.toDelete) > 0 && p.toDelete[pod.Name]
		var wait time.Duration
		if u.isAvailable, wait = pod.available(p.now, minReady); wait > 0 {
			p.decision.WakeIn(wait)
		}
	}
	p.units = units[:n]
	p.tallyStates()
}

// tallyStates counts the pods by the state of their lifecycle. Most neighbours in the list are in
// the same state, so they are counted together.
func (p *plan) tallyStates() {
	p.decision.Tally.States = map[string]int{}
	var last kruise.LifecycleState
	run := 0
	flush := func() {
		if run > 0 {
			p.decision.Tally.States[string(last)] += run
		}
	}
	for i := range p.units {
		state := p.units[i].state
		if state == "" {
			state = kruise.StateNormal
		}
		if state != last {
			flush()
			last, run = state, 0
		}
		run++
	}
	flush()
}

// compare computes the difference between the pods and the spec.
func (p *plan) compare() {
	for i := range p.units {
		u := &p.units[i]
		g := &p.outdated
		if u.isUpdated {
			g = &p.updated
		}
		g.all++
		switch {
		case u.state == kruise.StatePreparingDelete:
			g.preparing++
			continue
		case u.specified:
			g.toDelete++
			if !u.isAvailable {
				g.unavailableToDelete++
			}
		case !u.isAvailable:
			g.unavailable++
		}
		if p.recreates(u) {
			g.recreated++
		}
	}
	p.diff = differ(p.wanted, p.outdated, p.updated, p.currentRevision == p.updateRevision)
	d := p.diff
	p.decision.Because("Compared", "%d pods are active, %d of them updated, %d are wanted with a partition of %d: create %d, delete %d, update %d, at most %d that are available",
		p.outdated.all+p.updated.all, p.updated.all, p.wanted.replicas, p.wanted.partition, d.create, d.remove, d.update, d.spare)
}

// recreates reports whether a pod can get its other revision only by being recreated.
func (p *plan) recreates(u *unit) bool {
	to := p.updateRevision
	if u.isUpdated {
		to = p.currentRevision
	}
	if u.of == to || u.state == kruise.StatePreparingUpdate {
		return false
	}
	switch p.set.Spec.UpdateStrategy.Type {
	case v1alpha1.OnDelete, v1alpha1.InPlaceOnly:
		return false
	case v1alpha1.InPlaceIfPossible:
		return p.changeTo(u.of, to).why != ""
	}
	return true
}

// unitOf returns the unit of an active pod.
func (p *plan) unitOf(pod *Pod) *unit {
	i, _ := slices.BinarySearchFunc(p.units, pod.Name, func(u unit, name string) int { return strings.Compare(u.Name, name) })
	return &p.units[i]
}

// hasPodNamed reports whether a pod of the set has a name.
func (p *plan) hasPodNamed(name string) bool {
	_, ok := slices.BinarySearchFunc(p.Pods, name, func(pod *Pod, name string) int { return strings.Compare(pod.Name, name) })
	return ok
}
