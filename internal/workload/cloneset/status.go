package cloneset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// HookPending is a condition that Kruise does not have: pods have waited for a hook for longer than
// Limits.HookTimeout.
const HookPending v1alpha1.CloneSetConditionType = "HookPending"

// writeStatus computes the status and decides whether it is written now.
func (p *plan) writeStatus() {
	known := p.updateRevision != nil
	was := &p.set.Status
	is := was.DeepCopy()
	p.count(is)
	is.ObservedGeneration = p.set.Generation
	if selector, err := metav1.LabelSelectorAsSelector(p.set.Spec.Selector); err == nil {
		is.LabelSelector = selector.String()
	}
	is.ExpectedUpdatedReplicas = int32(p.wanted.replicas - p.wanted.partition)
	if known {
		p.nameRevisions(is)
	}
	counts := *is
	urgent := !p.sameBut(&counts, was)
	if known {
		p.progress(is)
		p.timeRollout(is)
	}
	p.failures(is)
	p.pending(is)
	urgent = urgent || !equality.Semantic.DeepEqual(conditionsOf(is), conditionsOf(was))
	if equality.Semantic.DeepEqual(is, was) {
		return
	}
	if wait := p.Limits.StatusPause - p.now.Sub(p.Past.StatusAt); !urgent && wait > 0 {
		p.decision.WakeIn(wait)
		p.decision.Because("WaitsWithStatus", "the status is written in %s, with more changes at once", wait.Round(time.Millisecond))
		return
	}
	p.decision.Status = is
	p.decision.Past.StatusAt = p.now
}

// conditionsOf returns the conditions without the times that change without any other change.
func conditionsOf(s *v1alpha1.CloneSetStatus) (all []v1alpha1.CloneSetCondition) {
	for _, c := range s.Conditions {
		c.LastUpdateTime = metav1.Time{}
		all = append(all, c)
	}
	return all
}

// sameBut reports whether two statuses differ at most in numbers of pods.
func (p *plan) sameBut(a, b *v1alpha1.CloneSetStatus) bool {
	// Users wait for all pods to be updated and available.
	if a.UpdatedAvailableReplicas != b.UpdatedAvailableReplicas && int(a.UpdatedAvailableReplicas) == p.wanted.replicas {
		return false
	}
	return a.ObservedGeneration == b.ObservedGeneration && a.UpdateRevision == b.UpdateRevision && a.CurrentRevision == b.CurrentRevision &&
		a.LabelSelector == b.LabelSelector && a.ExpectedUpdatedReplicas == b.ExpectedUpdatedReplicas
}

func (p *plan) count(is *v1alpha1.CloneSetStatus) {
	is.Replicas, is.ReadyReplicas, is.AvailableReplicas = int32(len(p.units)), 0, 0
	is.UpdatedReplicas, is.UpdatedReadyReplicas, is.UpdatedAvailableReplicas = 0, 0, 0
	for i := range p.units {
		u := &p.units[i]
		updated := int32(0)
		if p.updateRevision != nil && u.of == p.updateRevision {
			updated = 1
		}
		is.UpdatedReplicas += updated
		if u.ready() {
			is.ReadyReplicas++
			is.UpdatedReadyReplicas += updated
		}
		if u.isAvailable {
			is.AvailableReplicas++
			is.UpdatedAvailableReplicas += updated
		}
	}
}

// nameRevisions sets the revisions of the status. The update revision becomes the current revision when all
// pods have it and the partition keeps none at another. Kruise compares only numbers of pods, so that a
// partition loses its effect when replicas decrease and increase again (#1545).
func (p *plan) nameRevisions(is *v1alpha1.CloneSetStatus) {
	is.UpdateRevision, is.CurrentRevision = p.updateRevision.name(), p.currentRevision.name()
	if p.wanted.partition == 0 && int(is.UpdatedReplicas) == p.wanted.replicas && is.Replicas == is.UpdatedReplicas {
		is.CurrentRevision = p.updateRevision.name()
	}
}

// progress sets the condition Progressing. Its time is that of the last progress, at which the deadline
// starts; a new revision restarts it. Kruise measures from the start of the update and reports
// DeadlineExceeded for a new revision too. Waits that the user configured do not count: a grace period is
// added to the deadline, and with OnDelete old pods do not delay the update.
func (p *plan) progress(is *v1alpha1.CloneSetStatus) {
	seconds := p.set.Spec.ProgressDeadlineSeconds
	if seconds == nil || *seconds == math.MaxInt32 {
		dropCondition(is, v1alpha1.Progressing)
		return
	}
	last := condition(is, v1alpha1.Progressing)
	since := p.now
	goesOn := last != nil && last.Reason == v1alpha1.ReasonPaused && !p.set.Spec.UpdateStrategy.Paused
	began := last == nil || goesOn || p.set.Status.UpdateRevision != is.UpdateRevision || p.set.Status.ObservedGeneration != p.set.Generation
	if !began && !p.moved(is) {
		since = last.LastUpdateTime.Time
	}
	expected, replicas := is.ExpectedUpdatedReplicas, int32(p.wanted.replicas)
	c := v1alpha1.CloneSetCondition{Type: v1alpha1.Progressing, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(since)}
	u := &p.set.Spec.UpdateStrategy
	deadline := time.Duration(*seconds) * time.Second
	if u.InPlaceUpdateStrategy != nil {
		deadline += time.Duration(u.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
	}
	left := since.Add(deadline).Sub(p.now)
	switch {
	case p.rolledOut(is):
		c.Reason, c.Message = v1alpha1.ReasonAvailable, "all pods are updated and available"
	case u.Paused:
		c.Reason, c.Message = v1alpha1.ReasonPaused, "the update is paused"
	case expected < replicas && expected <= is.UpdatedAvailableReplicas && is.Replicas >= replicas:
		c.Reason, c.Message = v1alpha1.ReasonPartitionAvailable, fmt.Sprintf("%d pods are updated and available, as the partition asks", expected)
	case u.Type == v1alpha1.OnDelete && is.AvailableReplicas >= replicas:
		c.Reason, c.Message = v1alpha1.ReasonUpdated, "pods of the old template stay until a client deletes them"
	case left <= 0:
		c.Status, c.Reason = corev1.ConditionFalse, v1alpha1.ReasonDeadlineExceeded
		c.Message = fmt.Sprintf("no progress for more than %.0f s", deadline.Seconds())
	default:
		c.Reason, c.Message = v1alpha1.ReasonUpdated, "the update continues"
		p.decision.WakeIn(left)
	}
	setCondition(is, c, p.now)
}

// rolledOut reports whether all pods exist and are updated and available.
func (p *plan) rolledOut(s *v1alpha1.CloneSetStatus) bool {
	replicas := int32(p.wanted.replicas)
	return p.wanted.partition == 0 && s.UpdatedAvailableReplicas == replicas && s.Replicas == replicas
}

// timeRollout tallies the duration of a rollout once for each revision, and once for each rollback to it.
func (p *plan) timeRollout(is *v1alpha1.CloneSetStatus) {
	past := &p.decision.Past
	if past.Rollout.Revision != is.UpdateRevision {
		began := p.now
		if past.Rollout.Revision == "" { // a process that has just started uses the age of the revision
			began = p.updateRevision.Object.CreationTimestamp.Time
		}
		was := &p.set.Status
		past.Rollout = Rollout{Revision: is.UpdateRevision, Began: began, Over: was.UpdateRevision == is.UpdateRevision && p.rolledOut(was)}
	}
	if !past.Rollout.Over && p.rolledOut(is) {
		past.Rollout.Over = true
		p.decision.Tally.RolledOut = max(p.now.Sub(past.Rollout.Began), 1)
	}
}

// moved reports whether the status shows progress since the last one: more pods of the update revision, more
// of them ready or available, or fewer others.
func (p *plan) moved(is *v1alpha1.CloneSetStatus) bool {
	was := &p.set.Status
	return is.UpdatedReplicas > was.UpdatedReplicas || is.UpdatedReadyReplicas > was.UpdatedReadyReplicas ||
		is.UpdatedAvailableReplicas > was.UpdatedAvailableReplicas ||
		is.Replicas-is.UpdatedReplicas < was.Replicas-was.UpdatedReplicas
}

// failures sets the conditions FailedScale and FailedUpdate while writes fail, and removes them afterwards.
func (p *plan) failures(is *v1alpha1.CloneSetStatus) {
	for _, f := range []struct {
		kind         v1alpha1.CloneSetConditionType
		reason, text string
	}{
		{v1alpha1.FailedScale, "WriteFailed", p.Past.ScaleError},
		{v1alpha1.FailedUpdate, "WriteFailed", p.Past.UpdateError},
	} {
		if f.kind == v1alpha1.FailedUpdate && f.text == "" {
			f.reason, f.text = "NotInPlace", p.decision.stuck
		}
		if f.kind == v1alpha1.FailedScale && f.text == "" {
			f.reason, f.text = "ScaleUpLimited", p.decision.limited
		}
		if p.unreadable != nil && f.text == "" {
			f.reason, f.text = "BadNumber", p.unreadable.Error()
		}
		if f.text == "" {
			dropCondition(is, f.kind)
			continue
		}
		setCondition(is, v1alpha1.CloneSetCondition{Type: f.kind, Status: corev1.ConditionTrue, Reason: f.reason, Message: f.text}, p.now)
	}
}

// mostNamed is how many waiting pods a message names.
const mostNamed = 5

// pending sets the condition HookPending while pods have waited for long.
func (p *plan) pending(is *v1alpha1.CloneSetStatus) {
	var waiting []string
	units := p.units
	if p.set.Spec.Lifecycle == nil {
		units = nil // no pod waits for a hook
	}
	for i := range units {
		u := &units[i]
		why := p.waitsFor(u)
		if why == "" {
			continue
		}
		since, err := time.Parse(time.RFC3339, u.StateSince)
		if err != nil {
			since = u.Created
		}
		if left := since.Add(p.Limits.HookTimeout).Sub(p.now); left > 0 {
			p.decision.WakeIn(left)
			continue
		}
		waiting = append(waiting, fmt.Sprintf("%s has been %s since %s: %s", u.Name, u.state, since.UTC().Format(time.RFC3339), why))
	}
	if len(waiting) == 0 {
		dropCondition(is, HookPending)
		return
	}
	slices.Sort(waiting)
	message := strings.Join(waiting[:min(len(waiting), mostNamed)], "; ")
	if more := len(waiting) - mostNamed; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	if c := condition(is, HookPending); c == nil || c.Message != message {
		p.decision.Emit(true, "HookPending", message)
	}
	setCondition(is, v1alpha1.CloneSetCondition{Type: HookPending, Status: corev1.ConditionTrue, Reason: "WaitsForHook", Message: message}, p.now)
}

// waitsFor returns which change by another client a pod waits for, "" if none.
func (p *plan) waitsFor(u *unit) string {
	hooks := p.hooks()
	gone := func(h *kruise.LifecycleHook) string {
		if !blocks(h, u.Pod) {
			return ""
		}
		return "waits for " + strings.Join(present(h, u.Pod), ", ") + " to be removed"
	}
	come := func(h *kruise.LifecycleHook) string {
		if complete(h, u.Pod) {
			return ""
		}
		return "waits for " + strings.Join(missing(h, u.Pod), ", ") + " to be added"
	}
	switch u.state {
	case kruise.StatePreparingNormal:
		return come(hooks.PreNormal)
	case kruise.StatePreparingUpdate:
		return gone(hooks.InPlaceUpdate)
	case kruise.StateUpdated:
		return come(hooks.InPlaceUpdate)
	case kruise.StatePreparingDelete:
		return gone(hooks.PreDelete)
	}
	return ""
}

func condition(s *v1alpha1.CloneSetStatus, kind v1alpha1.CloneSetConditionType) *v1alpha1.CloneSetCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

// setCondition puts a condition in the place of the one of its type.
func setCondition(s *v1alpha1.CloneSetStatus, c v1alpha1.CloneSetCondition, now time.Time) {
	last := condition(s, c.Type)
	c.LastTransitionTime = metav1.NewTime(now)
	if last != nil && last.Status == c.Status {
		c.LastTransitionTime = last.LastTransitionTime
	}
	if c.LastUpdateTime.IsZero() {
		c.LastUpdateTime = metav1.NewTime(now)
		if last != nil && last.Status == c.Status && last.Reason == c.Reason && last.Message == c.Message {
			c.LastUpdateTime = last.LastUpdateTime
		}
	}
	if last != nil {
		*last = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}

func dropCondition(s *v1alpha1.CloneSetStatus, kind v1alpha1.CloneSetConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1alpha1.CloneSetCondition) bool { return c.Type == kind })
	if len(s.Conditions) == 0 {
		s.Conditions = nil
	}
}
