package cloneset

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// transition is a transition between lifecycle states of a pod.
type transition struct {
	from []kruise.LifecycleState
	to   kruise.LifecycleState
	// when is for the documentation. due decides; it is nil for transitions that update and scale steps
	// choose.
	when string
	due  func(*plan, *unit) bool
}

const gone kruise.LifecycleState = "(deleted)"

// transitions are those of a pod's lifecycle; the first one that is due is taken. A hook "blocks" a pod that
// has any of its handlers, and is "complete" for a pod that has all of them. A missing hook blocks nothing and
// is complete.
var transitions = []transition{
	{[]kruise.LifecycleState{kruise.StatePreparingNormal}, kruise.StateNormal,
		"the pod is on a node or has a preNormal hook, and the hook is complete", (*plan).mayBecomeNormal},

	{[]kruise.LifecycleState{"", kruise.StatePreparingNormal, kruise.StateNormal, kruise.StateUpdated}, kruise.StatePreparingUpdate,
		"selected for an update in place, and the inPlaceUpdate hook blocks the pod (an Updated pod gets the handlers again)", nil},
	{[]kruise.LifecycleState{"", kruise.StatePreparingNormal, kruise.StateNormal, kruise.StateUpdating, kruise.StateUpdated}, kruise.StateUpdating,
		"selected for an update in place, and no hook blocks the pod", nil},
	{[]kruise.LifecycleState{"", kruise.StateNormal}, kruise.StateUpdated,
		"selected for an update in place of metadata only, and the inPlaceUpdate hook is not complete", nil},
	{[]kruise.LifecycleState{kruise.StatePreparingUpdate}, kruise.StateUpdating,
		"the hook does not block the pod any more, and the update is still wanted", nil},
	{[]kruise.LifecycleState{kruise.StatePreparingUpdate}, kruise.StateUpdated,
		"the update is not wanted any more, and the inPlaceUpdate hook is not complete", (*plan).cancelsUpdateHooked},
	{[]kruise.LifecycleState{kruise.StatePreparingUpdate}, kruise.StatePreparingNormal,
		"the update is not wanted any more, and the pod had not been Normal before", (*plan).cancelsUpdateEarly},
	{[]kruise.LifecycleState{kruise.StatePreparingUpdate}, kruise.StateNormal,
		"the update is not wanted any more", (*plan).cancelsUpdate},

	{[]kruise.LifecycleState{kruise.StateUpdating}, kruise.StateUpdated,
		"the containers run their new spec, and the inPlaceUpdate hook is not complete", (*plan).updateDoneHooked},
	{[]kruise.LifecycleState{kruise.StateUpdating}, kruise.StatePreparingNormal,
		"the containers run their new spec, and the pod had not been Normal before", (*plan).updateDoneEarly},
	{[]kruise.LifecycleState{kruise.StateUpdating}, kruise.StateNormal,
		"the containers run their new spec", (*plan).updateDone},
	{[]kruise.LifecycleState{kruise.StateUpdated}, kruise.StatePreparingNormal,
		"the inPlaceUpdate hook is complete, and the pod had not been Normal before", (*plan).hookCompleteEarly},
	{[]kruise.LifecycleState{kruise.StateUpdated}, kruise.StateNormal,
		"the inPlaceUpdate hook is complete", (*plan).hookComplete},

	{[]kruise.LifecycleState{"", kruise.StatePreparingNormal, kruise.StateNormal, kruise.StatePreparingUpdate, kruise.StateUpdating, kruise.StateUpdated}, kruise.StatePreparingDelete,
		"selected for deletion, and the preDelete hook blocks the pod", nil},
	{[]kruise.LifecycleState{kruise.StatePreparingDelete}, kruise.StatePreparingNormal,
		"the pod is needed again, no user has specified its deletion, and neither the preDelete nor the inPlaceUpdate hook has markPodNotReady", nil},
	{[]kruise.LifecycleState{kruise.StatePreparingDelete}, kruise.StateUpdating,
		"the same conditions, and its update in place has not ended", nil},
	{[]kruise.LifecycleState{"", kruise.StatePreparingNormal, kruise.StateNormal, kruise.StatePreparingUpdate, kruise.StateUpdating, kruise.StateUpdated, kruise.StatePreparingDelete}, gone,
		"selected for deletion, and no hook blocks the pod any more", nil},
}

// dueFrom are the transitions that may be due, by the state before them.
var dueFrom = func() map[kruise.LifecycleState][]*transition {
	all := map[kruise.LifecycleState][]*transition{}
	for i := range transitions {
		if t := &transitions[i]; t.due != nil {
			for _, from := range t.from {
				all[from] = append(all[from], t)
			}
		}
	}
	return all
}()

// blocks reports whether a pod has any handler of a hook, and complete whether it has all of them.
func blocks(h *kruise.LifecycleHook, p *Pod) bool {
	if h == nil {
		return false
	}
	for key, value := range h.LabelsHandler {
		if got, ok := p.Labels[key]; ok && got == value {
			return true
		}
	}
	return slices.ContainsFunc(h.FinalizersHandler, func(f string) bool { return slices.Contains(p.Finalizers, f) })
}

func complete(h *kruise.LifecycleHook, p *Pod) bool { return len(missing(h, p)) == 0 }

// missing returns the handlers of a hook that a pod does not have, as text.
func missing(h *kruise.LifecycleHook, p *Pod) (handlers []string) {
	if h == nil {
		return nil
	}
	for key, value := range h.LabelsHandler {
		if got, ok := p.Labels[key]; !ok || got != value {
			handlers = append(handlers, "label "+key+"="+value)
		}
	}
	for _, f := range h.FinalizersHandler {
		if !slices.Contains(p.Finalizers, f) {
			handlers = append(handlers, "finalizer "+f)
		}
	}
	slices.Sort(handlers)
	return handlers
}

// present returns the handlers of a hook that a pod has, as text.
func present(h *kruise.LifecycleHook, p *Pod) (handlers []string) {
	for key, value := range h.LabelsHandler {
		if got, ok := p.Labels[key]; ok && got == value {
			handlers = append(handlers, "label "+key+"="+value)
		}
	}
	for _, f := range h.FinalizersHandler {
		if slices.Contains(p.Finalizers, f) {
			handlers = append(handlers, "finalizer "+f)
		}
	}
	slices.Sort(handlers)
	return handlers
}

func (p *plan) hooks() *kruise.Lifecycle {
	if p.set.Spec.Lifecycle == nil {
		return &kruise.Lifecycle{}
	}
	return p.set.Spec.Lifecycle
}

func (p *plan) mayBecomeNormal(u *unit) bool {
	if h := p.hooks().PreNormal; h != nil {
		return complete(h, u.Pod)
	}
	return u.Node != ""
}

func (p *plan) cancelsUpdate(u *unit) bool { return u.cancelsUpdate }
func (p *plan) cancelsUpdateHooked(u *unit) bool {
	return u.cancelsUpdate && !complete(p.hooks().InPlaceUpdate, u.Pod)
}
func (p *plan) cancelsUpdateEarly(u *unit) bool { return u.cancelsUpdate && p.startedBeforeNormal(u) }
func (p *plan) updateDoneEarly(u *unit) bool    { return p.updateDone(u) && p.startedBeforeNormal(u) }
func (p *plan) updateDoneHooked(u *unit) bool {
	return p.updateDone(u) && !complete(p.hooks().InPlaceUpdate, u.Pod)
}
func (p *plan) hookComplete(u *unit) bool      { return complete(p.hooks().InPlaceUpdate, u.Pod) }
func (p *plan) hookCompleteEarly(u *unit) bool { return p.hookComplete(u) && p.startedBeforeNormal(u) }

// startedBeforeNormal reports whether the update in place of a pod started before it had been Normal, so that its
// preNormal hook is still to be completed.
func (p *plan) startedBeforeNormal(u *unit) bool {
	return p.hooks().PreNormal != nil && u.neverNormal()
}

// neverNormal reports whether a pod has never been Normal. During an update in place, the record of the update
// contains it; at other times the record may be that of an earlier update.
func (u *unit) neverNormal() bool {
	switch u.state {
	case kruise.StatePreparingNormal:
		return true
	case kruise.StatePreparingUpdate, kruise.StateUpdating, kruise.StateUpdated:
		s := u.inPlaceState()
		return s != nil && s.PreparingNormal
	}
	return false
}

// advanceAll advances each pod's lifecycle.
func (p *plan) advanceAll() {
	for i := range p.units {
		p.advance(&p.units[i])
	}
}

// advance moves a pod to the next state of its lifecycle, and updates its conditions.
func (p *plan) advance(u *unit) {
	if u.acted || u.settled() {
		return
	}
	if u.InPlaceGrace != "" && u.state != kruise.StatePreparingDelete {
		return // finishOrders runs later
	}
	if u.state == kruise.StateUpdating && p.nextBatch(u) {
		return
	}
	if !u.normal() {
		for _, t := range dueFrom[u.state] {
			if t.due(p, u) {
				p.move(u, t.to, t.when)
				return
			}
		}
	}
	if c := p.conditions(u, u.state); len(c) > 0 {
		p.patch(u, patch{Status: &patchStatus{Conditions: c}}, "Conditions", "its readiness gates have the wrong status")
	}
}

// move patches a pod to another state.
func (p *plan) move(u *unit, to kruise.LifecycleState, why string) {
	if len(p.decision.Actions) >= 4*p.Limits.Pods {
		return
	}
	p.decision.Tally.Moved++
	body := patch{}
	body.Metadata.Labels = map[string]*string{kruise.LabelState: ptrTo(string(to))}
	body.Metadata.Annotations = map[string]any{kruise.AnnotationStateSince: p.stamp()}
	if c := p.conditions(u, to); len(c) > 0 {
		body.Status = &patchStatus{Conditions: c}
	}
	p.patch(u, body, string(to), why)
}

func (p *plan) stamp() string {
	if p.stamped == "" {
		p.stamped = p.now.UTC().Format(time.RFC3339)
	}
	return p.stamped
}

// conditions returns the conditions of a pod's readiness gates that must change for a state. The key of a hook
// in their message is removed as soon as the pod is not in a state of that hook, whichever transition it took.
func (p *plan) conditions(u *unit, in kruise.LifecycleState) (changed []patchCondition) {
	keepsTraffic := false
	if in == kruise.StateUpdating {
		s := u.inPlaceState()
		keepsTraffic = s != nil && s.KeepsTraffic
	}
	return p.conditionsOf(u, in, keepsTraffic)
}

// conditionsOf is like conditions, for a pod of which it is known whether its update in place keeps it ready.
func (p *plan) conditionsOf(u *unit, in kruise.LifecycleState, keepsTraffic bool) (changed []patchCondition) {
	set := func(kind string, is Condition, status corev1.ConditionStatus, reason, message string) {
		if is.Status == status && (kind != kruise.ConditionPodReady || is.Message == message) {
			return
		}
		changed = append(changed, patchCondition{
			Type: corev1.PodConditionType(kind), Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(p.now),
		})
	}
	if u.inPlaceGate && u.Node != "" {
		switch {
		case in == kruise.StatePreparingDelete && u.InPlace.Status != "":
			// The condition stays as it is, because the pod may be needed again.
		case in == kruise.StateUpdating && !keepsTraffic:
			set(kruise.ConditionInPlaceUpdateReady, u.InPlace, corev1.ConditionFalse, "StartInPlaceUpdate", "")
		default:
			set(kruise.ConditionInPlaceUpdateReady, u.InPlace, corev1.ConditionTrue, "", "")
		}
	}
	if u.traffic && (u.Node != "" || u.Traffic.Status != "") {
		message := p.notReady(u, in, keepsTraffic)
		if message == "" {
			set(kruise.ConditionPodReady, u.Traffic, corev1.ConditionTrue, "", "")
		} else {
			set(kruise.ConditionPodReady, u.Traffic, corev1.ConditionFalse, "", message)
		}
	}
	notReady := func(c patchCondition) bool { return c.Status == corev1.ConditionFalse }
	if u.Ready.Status == corev1.ConditionTrue && slices.ContainsFunc(changed, notReady) {
		// The kubelet will write the same; setting it now makes the pod ready earlier.
		changed = append(changed, patchCondition{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady", LastTransitionTime: metav1.NewTime(p.now),
		})
	}
	return changed
}

// The keys of hooks that make a pod not ready, and the user agent of this controller in the message.
const (
	preDeleteKey = "preDeleteHook"
	preUpdateKey = "preUpdateHook"
	userAgent    = "Lifecycle"
)

// notReady returns the message of ConditionPodReady for a state: which hooks make the pod not ready, "" if
// none does. It keeps the entries of other user agents.
func (p *plan) notReady(u *unit, in kruise.LifecycleState, keepsTraffic bool) string {
	var all []kruise.NotReadyMessage
	if u.Traffic.Message != "" {
		// A message that cannot be parsed was not written by a client that uses this format.
		_ = json.Unmarshal([]byte(u.Traffic.Message), &all)
	}
	all = slices.DeleteFunc(all, func(m kruise.NotReadyMessage) bool { return m.UserAgent == userAgent })
	switch {
	case in == kruise.StatePreparingDelete && marksNotReady(p.hooks().PreDelete):
		all = append(all, kruise.NotReadyMessage{UserAgent: userAgent, Key: preDeleteKey})
	case (in == kruise.StatePreparingUpdate || in == kruise.StateUpdating && !keepsTraffic) && marksNotReady(p.hooks().InPlaceUpdate):
		all = append(all, kruise.NotReadyMessage{UserAgent: userAgent, Key: preUpdateKey})
	}
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(text)
}

// marksNotReady reports whether a hook makes pods that wait for it not ready.
func marksNotReady(h *kruise.LifecycleHook) bool { return h != nil && h.MarkPodNotReady }

func ptrTo[T any](v T) *T { return &v }
