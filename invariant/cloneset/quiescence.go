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

// finalState is a CloneSet in a world at rest.
type finalState struct {
	*setSpec
	record *setRecord
	now    time.Time
	// all are the active pods, updated those of the status's updateRevision, available
	// those that users can count on, preparing those that wait for their preDelete hook.
	all                           []*podRecord
	updated, available, preparing int
	ready, updatedReady           int
	updatedAvailable              int
}

// ended tells what is left undone in a world at rest: what was not tidied away, pods that
// are in a state that they could leave, too many or too few of them, too few of the
// newest revision, and a status that tells something else than what there is.
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
		f.tidyPods, func(e *finalState) error { return f.tidyClaims(v, e) }, func(e *finalState) error { return f.tidyRevisions(v, e) },
		f.movedOn, (*finalState).enough, (*finalState).upToDate, (*finalState).statusMatches,
	} {
		if err := check(e); err != nil {
			return err
		}
	}
	return nil
}

// movedOn tells whether every pod is available or waits for somebody else.
func (f *follower) movedOn(e *finalState) error {
	for _, p := range e.all {
		now := p.now()
		if !now.available(e.record.uid, e.minReady, e.now) && e.waitsFor(now) == "" {
			return fmt.Errorf("%s is %q and not available, and waits for nobody else (labels %v, finalizers %v, conditions %s)", p.name, now.state,
				now.pod.Labels, now.pod.Finalizers, inspect.ConditionText(inspect.Conditions(p.object)))
		}
	}
	return nil
}

// waitsFor says what a pod waits for that others have to do, "" if nothing.
func (e *finalState) waitsFor(p *podVersion) string {
	switch p.state {
	case kruise.StatePreparingNormal:
		if e.hooks.PreNormal != nil && !p.complete(e.hooks.PreNormal) {
			return "its preNormal hook"
		}
	case kruise.StatePreparingUpdate:
		if p.held(e.hooks.InPlaceUpdate) {
			return "its inPlaceUpdate hook"
		}
		return ""
	case kruise.StateUpdated:
		if !p.complete(e.hooks.InPlaceUpdate) {
			return "its inPlaceUpdate hook"
		}
		return ""
	case kruise.StatePreparingDelete:
		if p.held(e.hooks.PreDelete) {
			return "its preDelete hook"
		}
		return ""
	}
	switch {
	case p.pod.Spec.NodeName == "":
		return "a node"
	case p.state == kruise.StatePreparingNormal:
		return "" // it needs a node, and its containers need not be ready
	case p.pod.Status.Phase != corev1.PodRunning, p.is(string(corev1.ContainersReady)) != corev1.ConditionTrue:
		return "its containers"
	case p.gated(kruise.ConditionPodReady) && p.is(kruise.ConditionPodReady) == corev1.ConditionFalse:
		return "who keeps it from traffic" // that it is not us, tidyPods tells
	}
	return ""
}

// spare is how many available pods may be taken out of service.
func (e *finalState) spare() int { return max(e.available-(e.replicas-e.maxUnavailable), 0) }

// enough tells whether there are as many pods as are wanted.
func (e *finalState) enough() error {
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
		most += e.maxSurge // the update waits, and so do they
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
			return fmt.Errorf("%s is there, and somebody asked for its deletion", p.name)
		}
	}
	return nil
}

// upToDate tells whether as many pods are of the newest revision as are to be, and
// whether they are what it says.
func (e *finalState) upToDate() error {
	spec := &e.record.set.Spec
	for _, p := range e.all {
		now := p.now()
		if now.pod.Labels[kruise.LabelRevision] != e.record.set.Status.UpdateRevision || now.state == kruise.StateUpdating || now.state == kruise.StatePreparingDelete {
			continue
		}
		for i := range spec.Template.Spec.Containers {
			if c := &spec.Template.Spec.Containers[i]; now.image(c.Name) != c.Image {
				return fmt.Errorf("%s bears the label of the newest revision, and container %s has image %q instead of %q", p.name, c.Name, now.image(c.Name), c.Image)
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
		if e.held(now) == "" {
			left = append(left, p)
		}
	}
	if kept <= e.partition {
		// What is missing are the successors of pods that wait for their preDelete hook. Who
		// updated another one meanwhile would take one away that the partition keeps, and would
		// have to make it again when the hook comes.
		return nil
	}
	impossible := spec.UpdateStrategy.Type == v1alpha1.InPlaceOnly && slices.ContainsFunc(e.record.set.Status.Conditions, func(c v1alpha1.CloneSetCondition) bool {
		return c.Type == v1alpha1.FailedUpdate
	})
	if len(left) == 0 || e.spare() == 0 || impossible {
		return nil
	}
	return fmt.Errorf("%d pods are updated and %d are to be; %d are available and may be spared, %s could be updated", e.updated, e.replicas-e.partition, e.spare(), podNames(left))
}

// held says which hook keeps a pod as it is.
func (e *finalState) held(p *podVersion) string {
	switch p.state {
	case kruise.StatePreparingUpdate, kruise.StatePreparingDelete, kruise.StateUpdating:
		return e.waitsFor(p)
	}
	return ""
}

// told tells whether the status says what there is.
func (e *finalState) statusMatches() error {
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
			return fmt.Errorf("its status says %s %d, and it is %d", number.name, number.says, number.want)
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
		return fmt.Errorf("progressDeadlineSeconds is set: %t, and there is a condition Progressing: %t", wanted, i >= 0)
	case wanted && e.partition == 0 && len(e.all) == e.replicas && e.updatedAvailable == e.replicas && status.Conditions[i].Reason != v1alpha1.ReasonAvailable:
		return fmt.Errorf("all pods are updated and available, and Progressing says %s", status.Conditions[i].Reason)
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
