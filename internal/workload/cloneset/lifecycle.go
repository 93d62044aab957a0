package cloneset

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// transition is one way from a state of a pod's life to another.
type transition struct {
	from []kruise.LifecycleState
	to   kruise.LifecycleState
	// when is for readers; due decides, and is nil of what update or scale chooses.
	when string
	due  func(*plan, *unit) bool
}

const gone kruise.LifecycleState = "(deleted)"

// transitions is the life of a pod. Of those that are due, the first is taken.
// "Held" means that the pod bears any handler of the hook, "complete" that it bears all
// of them; without the hook it is neither held nor is anything missing.
var transitions = []transition{
	{[]kruise.LifecycleState{kruise.StatePreparingNormal}, kruise.StateNormal,
		"it is on a node, or there is a preNormal hook; and the hook is complete", (*plan).mayBecomeNormal},

	{[]kruise.LifecycleState{"", kruise.StatePreparingNormal, kruise.StateNormal, kruise.StateUpdated}, kruise.StatePreparingUpdate,
		"chosen to be updated in place, and held by the inPlaceUpdate hook (an Updated pod gets the handlers again)", nil},
	{[]kruise.LifecycleState{"", kruise.StatePreparingNormal, kruise.StateNormal, kruise.StateUpdating, kruise.StateUpdated}, kruise.StateUpdating,
		"chosen to be updated in place, and not held", nil},
	{[]kruise.LifecycleState{"", kruise.StateNormal}, kruise.StateUpdated,
		"chosen to be updated in place, which changes nothing but metadata, and the inPlaceUpdate hook is not complete", nil},
	{[]kruise.LifecycleState{kruise.StatePreparingUpdate}, kruise.StateUpdating,
		"not held any more, and the update is wanted still", nil},
	{[]kruise.LifecycleState{kruise.StatePreparingUpdate}, kruise.StateUpdated,
		"the update is not wanted any more, and the inPlaceUpdate hook is not complete", (*plan).cancelsUpdateHooked},
	{[]kruise.LifecycleState{kruise.StatePreparingUpdate}, kruise.StatePreparingNormal,
		"the update is not wanted any more, and the pod had not been Normal before", (*plan).cancelsUpdateEarly},
	{[]kruise.LifecycleState{kruise.StatePreparingUpdate}, kruise.StateNormal,
		"the update is not wanted any more", (*plan).cancelsUpdate},

	{[]kruise.LifecycleState{kruise.StateUpdating}, kruise.StateUpdated,
		"the containers run what they are to run, and the inPlaceUpdate hook is not complete", (*plan).updateDoneHooked},
	{[]kruise.LifecycleState{kruise.StateUpdating}, kruise.StatePreparingNormal,
		"the containers run what they are to run, and the pod had not been Normal before", (*plan).updateDoneEarly},
	{[]kruise.LifecycleState{kruise.StateUpdating}, kruise.StateNormal,
		"the containers run what they are to run", (*plan).updateDone},
	{[]kruise.LifecycleState{kruise.StateUpdated}, kruise.StatePreparingNormal,
		"the inPlaceUpdate hook is complete, and the pod had not been Normal before", (*plan).hookCompleteEarly},
	{[]kruise.LifecycleState{kruise.StateUpdated}, kruise.StateNormal,
		"the inPlaceUpdate hook is complete", (*plan).hookComplete},

	{[]kruise.LifecycleState{"", kruise.StatePreparingNormal, kruise.StateNormal, kruise.StatePreparingUpdate, kruise.StateUpdating, kruise.StateUpdated}, kruise.StatePreparingDelete,
		"chosen to be deleted, and held by the preDelete hook", nil},
	{[]kruise.LifecycleState{kruise.StatePreparingDelete}, kruise.StatePreparingNormal,
		"it is needed again, nobody asked for its deletion, and neither the preDelete nor the inPlaceUpdate hook has markPodNotReady", nil},
	{[]kruise.LifecycleState{kruise.StatePreparingDelete}, kruise.StateUpdating,
		"the same, and its update in place has not ended", nil},
	{[]kruise.LifecycleState{"", kruise.StatePreparingNormal, kruise.StateNormal, kruise.StatePreparingUpdate, kruise.StateUpdating, kruise.StateUpdated, kruise.StatePreparingDelete}, gone,
		"chosen to be deleted, and not held any more", nil},
}

// dueFrom are the transitions that may be due, by the state that they lead from.
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

// held tells whether a pod bears any handler of a hook, complete whether it bears all.
func held(h *kruise.LifecycleHook, p *Pod) bool {
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

// missing are the handlers of a hook that a pod does not bear, as people write them.
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

// borne are the handlers of a hook that a pod bears.
func borne(h *kruise.LifecycleHook, p *Pod) (handlers []string) {
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
func (p *plan) cancelsUpdateEarly(u *unit) bool { return u.cancelsUpdate && p.wasEarly(u) }
func (p *plan) updateDoneEarly(u *unit) bool    { return p.updateDone(u) && p.wasEarly(u) }
func (p *plan) updateDoneHooked(u *unit) bool {
	return p.updateDone(u) && !complete(p.hooks().InPlaceUpdate, u.Pod)
}
func (p *plan) hookComplete(u *unit) bool      { return complete(p.hooks().InPlaceUpdate, u.Pod) }
func (p *plan) hookCompleteEarly(u *unit) bool { return p.hookComplete(u) && p.wasEarly(u) }

// wasEarly tells whether a pod was taken for an update in place before it had been Normal:
// its preNormal hook is still to be honoured.
func (p *plan) wasEarly(u *unit) bool { return p.hooks().PreNormal != nil && u.early() }

// early tells whether a pod has not been Normal yet. In a step of an update in place, its
// record remembers; in others the record may be that of an update long ago.
func (u *unit) early() bool {
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
		return // finishOrders has its turn
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
		p.patch(u, patch{Status: &patchStatus{Conditions: c}}, "Conditions", "its readiness gates are to say how it is")
	}
}

// move brings a pod to another state.
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

// conditions are those of a pod's readiness gates that are not as they should be in a
// state. A key that was set on the way into a hook is gone as soon as the pod is on no such
// way, whatever way it left.
func (p *plan) conditions(u *unit, in kruise.LifecycleState) (changed []patchCondition) {
	keepsTraffic := false
	if in == kruise.StateUpdating {
		s := u.inPlaceState()
		keepsTraffic = s != nil && s.KeepsTraffic
	}
	return p.conditionsOf(u, in, keepsTraffic)
}

// conditionsOf is conditions of a pod of which it is known whether its update in place keeps it in
// traffic.
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
			// It is as it was, in case it is needed again.
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
		// The kubelet will say the same; traffic need not wait for it.
		changed = append(changed, patchCondition{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady", LastTransitionTime: metav1.NewTime(p.now),
		})
	}
	return changed
}

// The keys of hooks that keep a pod from traffic, and who we are among those who do.
const (
	preDeleteKey = "preDeleteHook"
	preUpdateKey = "preUpdateHook"
	userAgent    = "Lifecycle"
)

// notReady is the message of ConditionPodReady in a state: who keeps the pod from
// traffic, "" if nobody does. Others' entries stay.
func (p *plan) notReady(u *unit, in kruise.LifecycleState, keepsTraffic bool) string {
	var all []kruise.NotReadyMessage
	if u.Traffic.Message != "" {
		// What cannot be read was not written by anybody who knows the format.
		_ = json.Unmarshal([]byte(u.Traffic.Message), &all)
	}
	all = slices.DeleteFunc(all, func(m kruise.NotReadyMessage) bool { return m.UserAgent == userAgent })
	switch {
	case in == kruise.StatePreparingDelete && marks(p.hooks().PreDelete):
		all = append(all, kruise.NotReadyMessage{UserAgent: userAgent, Key: preDeleteKey})
	case (in == kruise.StatePreparingUpdate || in == kruise.StateUpdating && !keepsTraffic) && marks(p.hooks().InPlaceUpdate):
		all = append(all, kruise.NotReadyMessage{UserAgent: userAgent, Key: preUpdateKey})
	}
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings
	}
	return string(text)
}

// marks tells whether pods that wait for a hook are kept from traffic.
func marks(h *kruise.LifecycleHook) bool { return h != nil && h.MarkPodNotReady }

func ptrTo[T any](v T) *T { return &v }
