package cloneset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// podWrite is a controller's write to a pod, and what the controller had observed.
type podWrite struct {
	*podRecord
	step *history.Step
	set  *setRecord
	// root is the step at which its reconcile started; specs and pods are the specs and the revision
	// of pods that its caches had then.
	root  int
	specs []setSpec
	pods  int64
	saw   string
}

// check checks the newest version of a pod, if a controller wrote it.
func (f *follower) check(v invariant.View, p *podRecord) {
	was, is := p.before(), p.now()
	defer p.remember(was, is)
	s := is.writer
	if s == nil || s.N <= f.since {
		return
	}
	uid := is.set
	if is.gone {
		uid = was.set
	}
	set := f.sets[uid]
	if set == nil || len(set.specs) == 0 {
		return // the CloneSet is deleted or unknown: each view of it is an old one
	}
	root := f.reconciles.DecidedAt(s.N)
	view := f.view(s.Actor, setsResource, root)
	w := &podWrite{
		podRecord: p, step: s, set: set, root: root, specs: set.inForce(view), pods: f.view(s.Actor, "pods", root),
	}
	w.saw = fmt.Sprintf("step %d, %s %s, decided at step %d with the CloneSet at revision %d and pods at %d", s.N, s.Verb, p.name, root, view, w.pods)
	if f.run.Live {
		w.saw = fmt.Sprintf("step %d, %s %s, decided after step %d (inferred) with the CloneSet at revision %d or later and pods at %d or later", s.N, s.Verb, p.name, root, view, w.pods)
	}
	if was == nil || was.set != uid {
		p.owned = s.N
	}
	switch {
	case was == nil:
		f.checkSurge(w)
		return
	case was.gone || was.set != uid:
		return
	}
	f.checkAvailable(v, w, was, is)
	f.checkHooks(w, was, is)
	if is.gone {
		return
	}
	f.checkImage(w, was, is)
	f.checkBackInTraffic(w, was, is)
	f.checkCancelledDeletion(w, was, is)
	f.checkResize(w, was, is)
	f.checkPartition(w, was, is)
}

// remember records facts that checkQuiescence needs later.
func (p *podRecord) remember(was, is *podVersion) {
	switch {
	case is.gone || is.terminating:
		p.removed = p.removed || is.writer != nil && was != nil && was.active()
	case is.normal():
		p.wasNormal = true
	}
	if is.gone || is.writer == nil || was == nil {
		return
	}
	for _, have := range is.pod.Finalizers {
		if !slices.Contains(was.pod.Finalizers, have) && !slices.Contains(p.added, have) {
			p.added = append(p.added, have)
		}
	}
}

// checkSurge checks the decision to create a pod.
func (f *follower) checkSurge(w *podWrite) {
	excludes, most := false, 0
	var named []string
	for _, s := range w.specs {
		excludes = excludes || s.excludes
		named = append(named, s.named...)
	}
	var there []string
	asked := 0
	for _, p := range f.of(w.set.uid) {
		if now := p.now(); p.owned >= 0 && now.active() && !(excludes && now.state == kruise.StatePreparingDelete) {
			there = append(there, p.name)
			if slices.Contains(named, p.name) || p.wasMarked() {
				asked++
			}
		}
	}
	for _, s := range w.specs {
		most = max(most, s.replicas+s.maxSurge+min(s.scaleSurge, asked))
	}
	if len(there) > most {
		f.violate(withinSurge, "%s: now there are %d (%s), and at most %d are allowed", w.saw, len(there), strings.Join(there, ", "), most)
	}
}

// checkAvailable checks the decision to make an available pod unavailable.
func (f *follower) checkAvailable(v invariant.View, w *podWrite, was, is *podVersion) {
	slowest, quickest, need := w.specs[0].minReady, w.specs[0].minReady, w.specs[0].replicas
	for _, s := range w.specs {
		slowest, quickest = max(slowest, s.minReady), min(quickest, s.minReady)
		need = min(need, s.replicas-s.maxUnavailable)
	}
	decided := f.run.Start.Add(f.run.Steps[w.root].At)
	if !was.available(w.set.uid, slowest, decided) || !is.gone && is.set != was.set {
		return
	}
	if is.available(w.set.uid, slowest, decided) && len(imagesChanged(was, is)) == 0 {
		return
	}
	var others []string
	for _, p := range f.of(w.set.uid) {
		if p != w.podRecord && p.countsOn(w.set.uid, quickest, v.Now(), w.pods) {
			others = append(others, p.name)
		}
	}
	if len(others) < need {
		f.violate(keepsAvailable, "%s: it was available, %d others are (%s), and %d must be", w.saw, len(others), strings.Join(others, ", "), need)
	}
}

// countsOn reports whether a controller may count a pod as available: it is available, or a cache at
// a revision shows it as available and no controller has made it unavailable since.
func (p *podRecord) countsOn(set types.UID, minReady time.Duration, now time.Time, revision int64) bool {
	if p.now().available(set, minReady, now) {
		return true
	}
	last, later := p.since(revision)
	if last == nil || !last.available(set, minReady, now) {
		return false
	}
	for i := range later {
		if is := &later[i]; is.writer != nil && last.available(set, minReady, now) && !is.available(set, minReady, now) {
			return false
		}
		last = &later[i]
	}
	return true
}

// checkHooks checks that no hook blocks what was done to a pod.
func (f *follower) checkHooks(w *podWrite, was, is *podVersion) {
	each := func(hook func(*kruise.Lifecycle) *kruise.LifecycleHook, violates func(*kruise.LifecycleHook) bool) bool {
		return !slices.ContainsFunc(w.specs, func(s setSpec) bool { return !violates(hook(&s.hooks)) })
	}
	if w.step.Verb == "delete" && !was.terminating && (is.gone || is.terminating) &&
		each(func(l *kruise.Lifecycle) *kruise.LifecycleHook { return l.PreDelete }, was.blocked) {
		f.violate(asksPreDelete, "%s: it has a handler of the hook (labels %v, finalizers %v)", w.saw, was.pod.Labels, was.pod.Finalizers)
	}
	if is.gone {
		return
	}
	begins := is.state == kruise.StateUpdating && was.state != kruise.StateUpdating && was.state != kruise.StatePreparingDelete ||
		was.state != kruise.StateUpdating && len(imagesChanged(was, is)) > 0
	if begins && each(func(l *kruise.Lifecycle) *kruise.LifecycleHook { return l.InPlaceUpdate }, was.blocked) {
		f.violate(asksInPlaceUpdate, "%s: it has a handler of the hook (labels %v, finalizers %v)", w.saw, was.pod.Labels, was.pod.Finalizers)
	}
	if is.normal() && !was.normal() && (was.state == kruise.StatePreparingNormal || !w.wasNormal) &&
		each(func(l *kruise.Lifecycle) *kruise.LifecycleHook { return l.PreNormal }, func(h *kruise.LifecycleHook) bool { return !is.complete(h) }) {
		f.violate(asksPreNormal, "%s: it was %s and is %s, and a handler of the hook is missing (labels %v, finalizers %v)", w.saw, was.state, is.state, is.pod.Labels, is.pod.Finalizers)
	}
}

// checkImage checks a change of an image.
func (f *follower) checkImage(w *podWrite, was, is *podVersion) {
	if !was.gated(kruise.ConditionInPlaceUpdateReady) || was.is(kruise.ConditionInPlaceUpdateReady) != "True" {
		return
	}
	if changed := imagesChanged(was, is); len(changed) > 0 {
		f.violate(imageBehindGate, "%s: %s is changed while InPlaceUpdateReady is True", w.saw, strings.Join(changed, ", "))
	}
}

// checkBackInTraffic checks the end of an update in place.
func (f *follower) checkBackInTraffic(w *podWrite, was, is *podVersion) {
	if was.is(kruise.ConditionInPlaceUpdateReady) != "False" || is.is(kruise.ConditionInPlaceUpdateReady) != "True" {
		return
	}
	for i := range is.pod.Spec.Containers {
		c := &is.pod.Spec.Containers[i]
		// A kubelet may restart a container from the spec that it has observed, which is older than the
		// one of the API: if it reports the wanted image from the beginning, the container has it.
		if began := w.began(c.Name, is.containerID(c.Name)); began != nil && began.image(c.Name) != c.Image && began.statusImage(c.Name) != c.Image {
			f.violate(restartsContainers, "%s: container %s must run %q and is still the one that was started with %q", w.saw, c.Name, c.Image, began.image(c.Name))
		}
		if runs := is.statusImage(c.Name); runs != c.Image && w.ran(c.Name, runs) {
			f.violate(restartsContainers, "%s: container %s must run %q and runs %q, which an earlier spec names", w.saw, c.Name, c.Image, runs)
		}
	}
}

// ran reports whether an earlier version of the pod's spec names an image for a container.
func (p *podRecord) ran(container, image string) bool {
	return slices.ContainsFunc(p.versions, func(v podVersion) bool { return !v.gone && image != "" && v.image(container) == image })
}

// checkCancelledDeletion checks a return from PreparingDelete.
func (f *follower) checkCancelledDeletion(w *podWrite, was, is *podVersion) {
	if was.state != kruise.StatePreparingDelete || is.state == kruise.StatePreparingDelete || is.terminating {
		return
	}
	marks := func(h *kruise.LifecycleHook) bool { return h != nil && h.MarkPodNotReady }
	for _, s := range w.specs {
		if !marks(s.hooks.PreDelete) && !marks(s.hooks.InPlaceUpdate) {
			return
		}
	}
	f.violate(keepsPreparing, "%s: it was %s and is %s", w.saw, was.state, is.state)
}

// checkResize checks the first write of an update in place, which contains what will be changed.
func (f *follower) checkResize(w *podWrite, was, is *podVersion) {
	if was.is(kruise.ConditionInPlaceUpdateReady) != "True" || is.is(kruise.ConditionInPlaceUpdateReady) != "False" {
		return
	}
	var order kruise.InPlaceUpdateSpec
	if json.Unmarshal([]byte(is.pod.Annotations[kruise.AnnotationInPlaceGrace]), &order) != nil ||
		len(order.ContainerImages) > 0 || order.UpdateEnvFromMetadata || len(order.ContainerResources) == 0 {
		return
	}
	for i := range is.pod.Spec.Containers {
		c := &is.pod.Spec.Containers[i]
		next, resized := order.ContainerResources[c.Name]
		for _, policy := range c.ResizePolicy {
			request, limit := c.Resources.Requests[policy.ResourceName], c.Resources.Limits[policy.ResourceName]
			changes := request.Cmp(next.Requests[policy.ResourceName]) != 0 || limit.Cmp(next.Limits[policy.ResourceName]) != 0
			if resized && changes && policy.RestartPolicy == corev1.RestartContainer {
				return
			}
		}
	}
	f.violate(resizesInTraffic, "%s: only its resources change, and InPlaceUpdateReady is False", w.saw)
}

// began returns the version of the pod that first shows a container ID, nil if none does.
func (p *podRecord) began(container, id string) *podVersion {
	for i := range p.versions {
		if v := &p.versions[i]; id != "" && !v.gone && v.containerID(container) == id {
			return v
		}
	}
	return nil
}

func (p *podVersion) containerID(name string) string {
	for i := range p.pod.Status.ContainerStatuses {
		if s := &p.pod.Status.ContainerStatuses[i]; s.Name == name {
			return s.ContainerID
		}
	}
	return ""
}

// statusImage returns the image that a container runs according to its kubelet.
func (p *podVersion) statusImage(name string) string {
	for i := range p.pod.Status.ContainerStatuses {
		if s := &p.pod.Status.ContainerStatuses[i]; s.Name == name && s.State.Running != nil {
			return s.Image
		}
	}
	return ""
}

func imagesChanged(was, is *podVersion) (changed []string) {
	if is.gone {
		return nil
	}
	for i := range is.pod.Spec.Containers {
		if c := &is.pod.Spec.Containers[i]; was.image(c.Name) != c.Image {
			changed = append(changed, "container "+c.Name)
		}
	}
	return changed
}

// checkPartition checks the decision to update a pod in place.
func (f *follower) checkPartition(w *podWrite, was, is *podVersion) {
	to := is.pod.Labels[kruise.LabelRevision]
	if to == "" || to == was.pod.Labels[kruise.LabelRevision] {
		return
	}
	most := 0
	for _, s := range w.specs {
		if s.rollsBack {
			return
		}
		most = max(most, s.replicas-s.partition)
	}
	var have []string
	for _, p := range f.of(w.set.uid) {
		if now := p.now(); p.owned >= 0 && now.active() && now.state != kruise.StatePreparingDelete && now.pod.Labels[kruise.LabelRevision] == to {
			have = append(have, p.name)
		}
	}
	if len(have) > most {
		f.violate(withinPartition, "%s: now %d have revision %s (%s), and at most %d may have it", w.saw, len(have), to, strings.Join(have, ", "), most)
	}
}
