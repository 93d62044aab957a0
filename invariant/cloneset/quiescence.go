package cloneset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// finalState is a CloneSet in a quiescent run.
type finalState struct {
	*setSpec
	record *setRecord
	now    time.Time
	// all are the active pods. updated counts those with the status's updateRevision, available the
	// available ones, preparing those that wait for their preDelete hook.
	all                           []*podRecord
	updated, available, preparing int
	ready, updatedReady           int
	updatedAvailable              int
}

// checkQuiescence returns what the controller has left undone although the run is quiescent: leftover
// finalizers, claims and revisions, pods in a state that they could leave, too many or too few pods,
// too few with the update revision, and a status that differs from the pods.
func (f *follower) checkQuiescence(v invariant.View) error {
	o := v.Get(setsResource, f.owner.Namespace, f.owner.Name)
	if o == nil || o.GetDeletionTimestamp() != nil || f.sets[o.GetUID()] == nil || f.sets[o.GetUID()].set == nil {
		return nil
	}
	e := &finalState{record: f.sets[o.GetUID()], now: v.Now()}
	e.setSpec = e.record.spec()
	for _, p := range f.of(e.record.uid) {
		now := p.now()
		if !now.active() {
			continue
		}
		e.all = append(e.all, p)
		updated := 0
		if now.pod.Labels[kruise.LabelRevision] == e.record.set.Status.UpdateRevision {
			updated = 1
		}
		e.updated += updated
		if now.state == kruise.StatePreparingDelete {
			e.preparing++
		}
		if now.ready() {
			e.ready++
			e.updatedReady += updated
		}
		if now.available(e.record.uid, e.minReady, e.now) {
			e.available++
			e.updatedAvailable += updated
		}
	}
	for _, check := range [...]func(*finalState) error{
		f.checkPods, func(e *finalState) error { return f.checkClaims(v, e) }, func(e *finalState) error { return f.checkRevisions(v, e) },
		f.checkStates, (*finalState).checkReplicas, (*finalState).checkUpdated, (*finalState).checkStatus,
	} {
		if err := check(e); err != nil {
			return err
		}
	}
	return nil
}

// checkStates checks that each pod is available or waits for others.
func (f *follower) checkStates(e *finalState) error {
	for _, p := range e.all {
		now := p.now()
		if !now.available(e.record.uid, e.minReady, e.now) && e.waitsFor(now) == "" {
			return fmt.Errorf("%s is %q and not available, and waits for nothing (labels %v, finalizers %v, conditions %s)", p.name, now.state,
				now.pod.Labels, now.pod.Finalizers, inspect.ConditionText(inspect.Conditions(p.object)))
		}
	}
	return nil
}

// waitsFor returns what a pod waits for that others must do, "" if nothing.
func (e *finalState) waitsFor(p *podVersion) string {
	switch p.state {
	case kruise.StatePreparingNormal:
		if e.hooks.PreNormal != nil && !p.complete(e.hooks.PreNormal) {
			return "its preNormal hook"
		}
	case kruise.StatePreparingUpdate:
		if p.blocked(e.hooks.InPlaceUpdate) {
			return "its inPlaceUpdate hook"
		}
		return ""
	case kruise.StateUpdated:
		if !p.complete(e.hooks.InPlaceUpdate) {
			return "its inPlaceUpdate hook"
		}
		return ""
	case kruise.StatePreparingDelete:
		if p.blocked(e.hooks.PreDelete) {
			return "its preDelete hook"
		}
		return ""
	}
	switch {
	case p.pod.Spec.NodeName == "":
		return "a node"
	case p.state == kruise.StatePreparingNormal:
		return "" // it only needs a node; its containers need not be ready
	case p.pod.Status.Phase != corev1.PodRunning, p.is(string(corev1.ContainersReady)) != corev1.ConditionTrue:
		return "its containers"
	case p.gated(kruise.ConditionPodReady) && p.is(kruise.ConditionPodReady) == corev1.ConditionFalse:
		return "what keeps it out of traffic" // checkPods has checked that it is not the controller
	}
	return ""
}

// spare returns how many available pods may become unavailable.
func (e *finalState) spare() int { return max(e.available-(e.replicas-e.maxUnavailable), 0) }

// checkReplicas checks the number of pods.
func (e *finalState) checkReplicas() error {
	counted := len(e.all)
	if e.excludes {
		counted -= e.preparing
	}
	waiting := len(e.all) - e.available
	if counted < e.replicas && waiting < e.scaleMaxUnavailable {
		return fmt.Errorf("there are %d active pods (%s), and %d are wanted", counted, podNames(e.all), e.replicas)
	}
	most := e.replicas
	if waiting > 0 {
		most += e.maxSurge // the update waits, so the surge pods stay
	}
	if have := len(e.all) - e.preparing; have > most && (e.spare() > 0 || waiting == 0) {
		return fmt.Errorf("there are %d active pods (%s), and %d are wanted", have, podNames(e.all), most)
	}
	if e.spare() == 0 {
		return nil
	}
	for _, p := range e.all {
		now := p.now()
		_, asked := now.pod.Labels[kruise.LabelSpecifiedDelete]
		asked = asked || slices.Contains(e.record.set.Spec.ScaleStrategy.PodsToDelete, now.pod.Name)
		if asked && now.state != kruise.StatePreparingDelete {
			return fmt.Errorf("%s exists, and a user asked for its deletion", p.name)
		}
	}
	return nil
}

// checkUpdated checks that enough pods have the update revision, and that their images are those of
// the template.
func (e *finalState) checkUpdated() error {
	spec := &e.record.set.Spec
	for _, p := range e.all {
		now := p.now()
		if now.pod.Labels[kruise.LabelRevision] != e.record.set.Status.UpdateRevision || now.state == kruise.StateUpdating || now.state == kruise.StatePreparingDelete {
			continue
		}
		for i := range spec.Template.Spec.Containers {
			if c := &spec.Template.Spec.Containers[i]; now.image(c.Name) != c.Image {
				return fmt.Errorf("%s has the label of the update revision, and container %s has image %q instead of %q", p.name, c.Name, now.image(c.Name), c.Image)
			}
		}
	}
	if e.updated >= e.replicas-e.partition || spec.UpdateStrategy.Type == v1alpha1.OnDelete || spec.UpdateStrategy.Paused || len(e.all) < e.replicas {
		return nil
	}
	var left []*podRecord
	kept := 0
	for _, p := range e.all {
		now := p.now()
		if now.pod.Labels[kruise.LabelRevision] == e.record.set.Status.UpdateRevision {
			continue
		}
		if now.state != kruise.StatePreparingDelete {
			kept++
		}
		if e.blockedBy(now) == "" {
			left = append(left, p)
		}
	}
	if kept <= e.partition {
		// Only the successors of pods that wait for their preDelete hook are missing. A controller that
		// updated another pod meanwhile would take one that the partition keeps, and would have to
		// create it again once the hook is answered.
		return nil
	}
	impossible := spec.UpdateStrategy.Type == v1alpha1.InPlaceOnly && slices.ContainsFunc(e.record.set.Status.Conditions, func(c v1alpha1.CloneSetCondition) bool {
		return c.Type == v1alpha1.FailedUpdate
	})
	if len(left) == 0 || e.spare() == 0 || impossible {
		return nil
	}
	return fmt.Errorf("%d pods are updated and %d must be; %d available ones may become unavailable, and %s could be updated", e.updated, e.replicas-e.partition, e.spare(), podNames(left))
}

// blockedBy returns what a pod in a state of a hook waits for, "" if nothing.
func (e *finalState) blockedBy(p *podVersion) string {
	switch p.state {
	case kruise.StatePreparingUpdate, kruise.StatePreparingDelete, kruise.StateUpdating:
		return e.waitsFor(p)
	}
	return ""
}

// checkStatus checks that the status agrees with the pods.
func (e *finalState) checkStatus() error {
	status := &e.record.set.Status
	for _, number := range [...]struct {
		name       string
		says, want int
	}{
		{"observedGeneration", int(status.ObservedGeneration), int(e.record.set.Generation)},
		{"replicas", int(status.Replicas), len(e.all)},
		{"readyReplicas", int(status.ReadyReplicas), e.ready},
		{"availableReplicas", int(status.AvailableReplicas), e.available},
		{"updatedReplicas", int(status.UpdatedReplicas), e.updated},
		{"updatedReadyReplicas", int(status.UpdatedReadyReplicas), e.updatedReady},
		{"updatedAvailableReplicas", int(status.UpdatedAvailableReplicas), e.updatedAvailable},
		{"expectedUpdatedReplicas", int(status.ExpectedUpdatedReplicas), e.replicas - e.partition},
	} {
		if number.says != number.want {
			return fmt.Errorf("its status shows %s %d instead of %d", number.name, number.says, number.want)
		}
	}
	if status.UpdateRevision == "" {
		return fmt.Errorf("its status names no updateRevision")
	}
	deadline := e.record.set.Spec.ProgressDeadlineSeconds
	wanted := deadline != nil && *deadline != math.MaxInt32
	i := slices.IndexFunc(status.Conditions, func(c v1alpha1.CloneSetCondition) bool { return c.Type == v1alpha1.Progressing })
	switch {
	case wanted != (i >= 0):
		return fmt.Errorf("progressDeadlineSeconds is set: %t; condition Progressing exists: %t", wanted, i >= 0)
	case wanted && e.partition == 0 && len(e.all) == e.replicas && e.updatedAvailable == e.replicas && status.Conditions[i].Reason != v1alpha1.ReasonAvailable:
		return fmt.Errorf("all pods are updated and available, and the reason of Progressing is %s", status.Conditions[i].Reason)
	}
	return nil
}

func podNames(pods []*podRecord) string {
	var names []string
	for _, p := range pods {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}
