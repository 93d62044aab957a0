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

// plan is a decision in the making.
type plan struct {
	State
	now    time.Time
	set    *v1alpha1.CloneSet
	wanted wanted
	// unreadable is what of the numbers of the spec cannot be read.
	unreadable error

	// updated is the revision of the template, current that of pods that keep the old one.
	updated, current *Revision
	byLabel          map[string]*Revision
	changes          map[[2]*Revision]*change
	lastKey          [2]*Revision // of changes, with what is there
	lastChange       *change
	splits           map[*change]parts
	updating         map[*Revision]map[string]*string
	stamped          string // now, as annotations have it

	toDelete map[string]bool // the names in podsToDelete

	// apart are pods that cannot be adopted or let go: not the set's, but they have their names.
	apart []*Pod

	units    []unit // the active pods
	inactive []*Pod // the others
	claimsBy map[string][]*Claim
	marks    int // pods that are marked for deletion, or whose claims are
	diff     difference
	// old and young are the active pods, young those that are updated.
	old, young group

	decision Decision
}

// unit is an active pod, and what this plan makes of it.
type unit struct {
	*Pod
	of *Revision // its own, nil if nobody knows it
	// isUpdated: it is of the template's revision, or on its way there.
	isUpdated, isAvailable bool
	// specified: somebody asked for its deletion, by name or label.
	specified bool
	// turnsBack: it waits for an update that is not wanted any more.
	turnsBack bool
	// acted: something is done to it already.
	acted bool

	update *kruise.InPlaceUpdateState
	named  *corev1.Pod
}

// object is as much of the pod as a write names.
func (u *unit) object() *corev1.Pod {
	if u.named == nil {
		u.named = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Name, UID: u.UID, ResourceVersion: u.ResourceVersion}}
	}
	return u.named
}

// Plan decides what is next. It is pure: the same state gives the same decision.
func Plan(now time.Time, s State) Decision {
	p := &plan{State: s, now: now, set: s.Set}
	p.decision.Past = s.Past
	if s.Set.DeletionTimestamp != nil {
		p.decision.Because("Deleting", "the CloneSet is being deleted: its pods are left to the garbage collector")
		return p.decision
	}
	if p.claim() {
		return p.decision
	}
	p.wanted, p.unreadable = resolve(s.Set)
	if p.unreadable != nil {
		p.decision.Because("BadNumber", "%s", p.unreadable)
	}
	known := p.revise()
	p.survey()
	if known {
		p.compare()
		p.turnBack()
		for i := range p.units {
			p.live(&p.units[i])
		}
		p.scale()
		p.rollOut()
		p.finishOrders()
		p.repairClaims()
		p.tidyClaims()
		p.forgetRevisions()
	}
	p.write(known)
	p.tidyNames()
	// A status that the API accepts shows that the set is as it was seen. Without one,
	// somebody else (another instance, a user) may know better.
	p.decision.Recheck = p.decision.Status == nil && (!known || p.decision.Tally.Created+p.decision.Tally.Deleted+p.decision.Tally.Updated > 0)
	return p.decision
}

// Unreadable is the decision about a set that is no CloneSet, although the API takes it: to
// say so. Its pods are left as they are.
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

// survey sorts the pods out.
func (p *plan) survey() {
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
		u := &units[n] // filled where it is: to copy one costs more than to look at a pod
		n++
		u.Pod, u.of = pod, p.revisionOf(pod)
		u.isUpdated = p.updated != nil && u.of == p.updated || pod.state == kruise.StatePreparingUpdate
		u.specified = pod.marked || len(p.toDelete) > 0 && p.toDelete[pod.Name]
		var wait time.Duration
		if u.isAvailable, wait = pod.available(p.now, minReady); wait > 0 {
			p.decision.WakeIn(wait)
		}
	}
	p.units = units[:n]
	p.tallyStates()
}

// tallyStates counts the pods in each state of their life. Neighbours are mostly in the
// same one, and are counted together.
func (p *plan) tallyStates() {
	p.decision.Tally.States = map[string]int{}
	var last kruise.LifecycleState
	run := 0
	note := func() {
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
			note()
			last, run = state, 0
		}
		run++
	}
	note()
}

// compare works out how far the pods are from what is wanted.
func (p *plan) compare() {
	old, updated := &p.old, &p.young
	for i := range p.units {
		u := &p.units[i]
		g := old
		if u.isUpdated {
			g = updated
		}
		g.all++
		switch {
		case u.state == kruise.StatePreparingDelete:
			g.preparing++
			continue
		case u.specified:
			g.toDelete++
			if !u.isAvailable {
				g.useless++
			}
		case !u.isAvailable:
			g.unavailable++
		}
		if p.recreates(u) {
			g.recreated++
		}
	}
	p.diff = differ(p.wanted, *old, *updated, p.current == p.updated)
	d := p.diff
	p.decision.Because("Compared", "%d pods are active, %d of them updated, %d are wanted with a partition of %d: create %d, delete %d, update %d, at most %d that are available",
		old.all+updated.all, updated.all, p.wanted.replicas, p.wanted.partition, d.create, d.remove, d.update, d.spare)
}

// recreates tells whether a pod can only come to its other revision as a new one.
func (p *plan) recreates(u *unit) bool {
	to := p.updated
	if u.isUpdated {
		to = p.current
	}
	switch {
	case u.of == to, u.state == kruise.StatePreparingUpdate:
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

// unitOf is the unit of an active pod.
func (p *plan) unitOf(pod *Pod) *unit {
	i, _ := slices.BinarySearchFunc(p.units, pod.Name, func(u unit, name string) int { return strings.Compare(u.Name, name) })
	return &p.units[i]
}

// bears tells whether a pod of the set has a name.
func (p *plan) bears(name string) bool {
	_, ok := slices.BinarySearchFunc(p.Pods, name, func(pod *Pod, name string) int { return strings.Compare(pod.Name, name) })
	return ok
}
