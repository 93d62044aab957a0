package cloneset

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/apps"
	"github.com/rehearse-k8s/rehearse/workload"
)

// An update in place is two writes, and a third when it has ended:
//
//  1. to the pod's status: not ready; state Updating, the new revision's labels, and what is
//     still to be done (apps.AnnotationInPlaceGrace) ride along;
//  2. to its spec, once the grace period is over: the images and metadata, and how the
//     containers were before (apps.AnnotationInPlaceState);
//  3. to its status, when the containers run what they are to run: ready again, and the
//     next state.
//
// Each is for the pod as it was seen, or as the write before has left it, so that it
// neither meets a pod that has become another (kruise #2276) nor one that it has changed
// itself. Who stops in between is taken up by whoever reads the annotation.

// inPlaceState is what the pod's last update in place has left, nil if nothing can be read.
func (u *unit) inPlaceState() *apps.InPlaceUpdateState {
	if u.InPlaceState == "" {
		return nil
	}
	if u.update == nil {
		u.update = &apps.InPlaceUpdateState{}
		if json.Unmarshal([]byte(u.InPlaceState), u.update) != nil {
			u.update = &apps.InPlaceUpdateState{}
		}
	}
	return u.update
}

// updateDone tells whether a pod's update in place has ended. A pod that is Updating
// without any record of it has nothing to wait for.
func (u *unit) updateDone() bool {
	s := u.inPlaceState()
	return u.InPlaceGrace == "" && (s == nil || len(s.NextContainerImages) == 0 && u.batchDone(s))
}

// batchDone tells whether the containers that were changed run what they are to run.
func (u *unit) batchDone(s *apps.InPlaceUpdateState) bool {
	for name, was := range s.LastContainerStatuses {
		is, spec := u.status(name), u.container(name)
		if spec == nil {
			continue
		}
		if is == nil {
			return false
		}
		anew := was.ContainerID != "" && is.ContainerID != was.ContainerID
		if s.UpdateEnvFromMetadata && was.ContainerID != "" && !anew {
			return false
		}
		if is.ImageID == was.ImageID && is.Image != spec.Image && !anew {
			return false
		}
		if s.UpdateResources && is.Resources != nil && !equality.Semantic.DeepEqual(compute(*is.Resources), compute(spec.Resources)) {
			return false
		}
	}
	return true
}

// compute is what of resources can be changed in a pod.
func compute(r corev1.ResourceRequirements) (only corev1.ResourceRequirements) {
	pick := func(from corev1.ResourceList) corev1.ResourceList {
		to := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := from[name]; ok {
				to[name] = q
			}
		}
		return to
	}
	only.Limits, only.Requests = pick(r.Limits), pick(r.Requests)
	return only
}

func (u *unit) container(name string) *Container {
	for i := range u.Containers {
		if u.Containers[i].Name == name {
			return &u.Containers[i]
		}
	}
	return nil
}

// begin updates a pod in place.
func (p *plan) begin(u *unit, to *Revision, c *change) {
	p.decision.Tally.Updated++
	revision := map[string]*string{apps.LabelRevision: ptrTo(to.name()), apps.LabelTemplateHash: ptrTo(shortHash(to.name()))}
	before := u.inPlaceState()
	todo := apps.InPlaceUpdateSpec{
		Revision: to.name(), ContainerImages: map[string]string{}, ContainerResources: c.resources, UpdateEnvFromMetadata: len(c.env) > 0,
	}
	for name, image := range c.images {
		todo.ContainerImages[name] = image
	}
	if before != nil && u.state == apps.StateUpdating { // what it has not come to yet
		for name := range before.NextContainerImages {
			if i := slices.IndexFunc(to.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
				todo.ContainerImages[name] = to.Template.Spec.Containers[i].Image
			}
		}
	}
	if c.onlyMetadata() && len(todo.ContainerImages) == 0 {
		p.relabel(u, c, revision)
		return
	}
	todo.MetaDataPatch = c.metadata
	if s := p.set.Spec.UpdateStrategy.InPlaceUpdateStrategy; s != nil {
		todo.GraceSeconds = s.GracePeriodSeconds
	}
	state := apps.InPlaceUpdateState{
		Revision: to.name(), UpdateTimestamp: metav1.NewTime(p.now), LastContainerStatuses: map[string]apps.InPlaceContainerStatus{},
		PreparingNormal: u.early(),
	}
	first := patch{}
	first.Metadata.Labels = revision
	first.Metadata.Labels[apps.LabelState] = ptrTo(string(apps.StateUpdating))
	first.Metadata.Annotations = map[string]any{
		apps.AnnotationStateSince: p.stamp(), apps.AnnotationInPlaceGrace: text{todo}, apps.AnnotationInPlaceState: text{state},
	}
	if conditions := p.conditions(u, apps.StateUpdating); len(conditions) > 0 {
		first.Status = &patchStatus{Conditions: conditions}
	}
	u.acted = true
	a := first.write(u, "SuccessfulUpdatePodInPlace", "updated in place to "+to.name())
	if todo.GraceSeconds == 0 {
		a.Then = p.finish(u, &todo, &state, to)
	} else {
		p.wake(time.Duration(todo.GraceSeconds) * time.Second)
	}
	p.act(a)
}

// relabel is an update that changes nothing but metadata: the pod stays in traffic.
func (p *plan) relabel(u *unit, c *change, revision map[string]*string) {
	b := patch{Metadata: patchMetadata{Labels: c.labels, Annotations: c.annotations}}
	if b.Metadata.Labels == nil {
		b.Metadata.Labels = map[string]*string{}
	}
	labels := map[string]*string{}
	for _, from := range []map[string]*string{c.labels, revision} {
		for key, value := range from {
			labels[key] = value
		}
	}
	b.Metadata.Labels = labels
	if to := p.stateAfter(u); to != u.state {
		b.Metadata.Labels[apps.LabelState] = ptrTo(string(to))
		b.Metadata.Annotations = maps.Clone(c.annotations)
		b.Metadata.Annotations[apps.AnnotationStateSince] = p.stamp()
		if conditions := p.conditions(u, to); len(conditions) > 0 {
			b.Status = &patchStatus{Conditions: conditions}
		}
	}
	p.patch(u, b, "SuccessfulUpdatePodInPlace", "its metadata was updated")
}

// stateAfter is the state of a pod that was updated at once.
func (p *plan) stateAfter(u *unit) apps.LifecycleState {
	switch {
	case u.state == apps.StatePreparingNormal:
		return apps.StatePreparingNormal
	case u.state == apps.StateUpdating && !u.updateDone():
		return apps.StateUpdating // the update before has not ended
	case !complete(p.hooks().InPlaceUpdate, u.Pod):
		return apps.StateUpdated
	case p.wasEarly(u):
		return apps.StatePreparingNormal
	case u.state == "":
		return ""
	}
	return apps.StateNormal
}

// finishGrace takes up an update that has still to change the pod's spec.
func (p *plan) finishGrace(u *unit) {
	var todo apps.InPlaceUpdateSpec
	err := json.Unmarshal([]byte(u.InPlaceGrace), &todo)
	to := p.byLabel[todo.Revision]
	if err != nil || to == nil || to != u.of {
		drop := patch{Metadata: patchMetadata{Annotations: map[string]any{apps.AnnotationInPlaceGrace: nil}}}
		p.patch(u, drop, "Dropped", "what was still to be changed belongs to another revision")
		return
	}
	state := apps.InPlaceUpdateState{Revision: to.name(), UpdateTimestamp: metav1.NewTime(p.now)}
	if s := u.inPlaceState(); s != nil {
		state = *s
	}
	if left := state.UpdateTimestamp.Add(time.Duration(todo.GraceSeconds) * time.Second).Sub(p.now); left > 0 {
		p.wake(left)
		return
	}
	u.acted = true
	p.act(*p.finish(u, &todo, &state, to))
}

// finish is the second write: what was to be done. Containers of a lower launch priority
// wait for those of a higher one.
func (p *plan) finish(u *unit, todo *apps.InPlaceUpdateSpec, state *apps.InPlaceUpdateState, to *Revision) *workload.Action {
	now, later := byPriority(todo.ContainerImages, to.Template)
	s := *state
	s.UpdateImages, s.UpdateResources, s.UpdateEnvFromMetadata = len(now) > 0, len(todo.ContainerResources) > 0, todo.UpdateEnvFromMetadata
	s.NextContainerImages = later
	s.LastContainerStatuses = map[string]apps.InPlaceContainerStatus{}
	for name := range now {
		s.LastContainerStatuses[name] = u.before(name)
	}
	for name := range todo.ContainerResources {
		s.LastContainerStatuses[name] = u.before(name)
	}
	if todo.UpdateEnvFromMetadata && u.of != nil {
		for i := range to.Template.Spec.Containers {
			if c := &to.Template.Spec.Containers[i]; p.readsChanged(todo, c) {
				s.LastContainerStatuses[c.Name] = u.before(c.Name)
			}
		}
	}
	s.PreCheckBeforeNext = nil
	if len(later) > 0 {
		s.PreCheckBeforeNext = &apps.InPlacePreCheck{ContainersRequiredReady: sorted(now)}
	}
	s.ContainerBatchesRecord = []apps.InPlaceContainerBatch{{Timestamp: metav1.NewTime(p.now), Containers: sorted(s.LastContainerStatuses)}}

	b := patch{}
	_ = json.Unmarshal(todo.MetaDataPatch, &b) // Kruise's is of the same form; what cannot be read is nothing
	b.Spec, b.Status = nil, nil
	if b.Metadata.Annotations == nil {
		b.Metadata.Annotations = map[string]any{}
	}
	b.Metadata.Annotations[apps.AnnotationInPlaceGrace] = nil
	b.Metadata.Annotations[apps.AnnotationInPlaceState] = text{s}
	if len(now) > 0 {
		b.Spec = &patchSpec{Containers: imagesOf(now)}
	}
	a := b.write(u, "Changed", "its spec is that of "+to.name())
	if len(todo.ContainerResources) == 0 {
		return &a
	}
	resize := patch{Spec: &patchSpec{}}
	for _, name := range sorted(todo.ContainerResources) {
		resize.Spec.Containers = append(resize.Spec.Containers, patchContainer{Name: name, Resources: ptrTo(todo.ContainerResources[name])})
	}
	before := resize.write(u, "Resized", "its resources are those of "+to.name())
	before.Subresource, before.Then = "resize", &a
	return &before
}

// readsChanged tells whether a container has a variable from metadata that is changed.
func (p *plan) readsChanged(todo *apps.InPlaceUpdateSpec, container *corev1.Container) bool {
	var b patch
	if json.Unmarshal(todo.MetaDataPatch, &b) != nil {
		return false
	}
	c := change{labels: b.Metadata.Labels, annotations: b.Metadata.Annotations}
	return c.reads(container)
}

// nextBatch changes the containers that waited for others, and tells whether there was
// anything to do or to wait for.
func (p *plan) nextBatch(u *unit) bool {
	s := u.inPlaceState()
	if s == nil || len(s.NextContainerImages) == 0 {
		return false
	}
	if !u.batchDone(s) || s.PreCheckBeforeNext != nil && slices.ContainsFunc(s.PreCheckBeforeNext.ContainersRequiredReady, func(name string) bool {
		is := u.status(name)
		return is == nil || !is.Ready
	}) {
		return true
	}
	to := u.of
	if to == nil {
		return true
	}
	now, later := byPriority(s.NextContainerImages, to.Template)
	next := *s
	next.NextContainerImages = later
	next.LastContainerStatuses = map[string]apps.InPlaceContainerStatus{}
	for name := range now {
		next.LastContainerStatuses[name] = u.before(name)
	}
	next.PreCheckBeforeNext = nil
	if len(later) > 0 {
		next.PreCheckBeforeNext = &apps.InPlacePreCheck{ContainersRequiredReady: sorted(now)}
	}
	next.ContainerBatchesRecord = append(slices.Clone(s.ContainerBatchesRecord), apps.InPlaceContainerBatch{Timestamp: metav1.NewTime(p.now), Containers: sorted(now)})
	b := patch{Spec: &patchSpec{Containers: imagesOf(now)}}
	b.Metadata.Annotations = map[string]any{apps.AnnotationInPlaceState: text{next}}
	p.patch(u, b, "NextContainers", "the containers before are ready")
	return true
}

// before is how a container is now.
func (u *unit) before(name string) apps.InPlaceContainerStatus {
	if s := u.status(name); s != nil {
		return apps.InPlaceContainerStatus{ImageID: s.ImageID, ContainerID: s.ContainerID}
	}
	return apps.InPlaceContainerStatus{}
}

// priorityVariable is Kruise's: containers of a higher number are started, and updated,
// before those of a lower one.
const priorityVariable = "KRUISE_CONTAINER_PRIORITY"

// byPriority takes those of the highest priority, and those without one.
func byPriority(images map[string]string, t *corev1.PodTemplateSpec) (now, later map[string]string) {
	priority := map[string]int{}
	highest := math.MinInt
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		if _, ok := images[c.Name]; !ok {
			continue
		}
		for _, e := range c.Env {
			if n, err := strconv.Atoi(e.Value); e.Name == priorityVariable && err == nil {
				priority[c.Name], highest = n, max(highest, n)
			}
		}
	}
	now, later = map[string]string{}, map[string]string{}
	for name, image := range images {
		if n, ok := priority[name]; ok && n < highest {
			later[name] = image
		} else {
			now[name] = image
		}
	}
	return now, later
}

func imagesOf(images map[string]string) (all []patchContainer) {
	for _, name := range sorted(images) {
		all = append(all, patchContainer{Name: name, Image: images[name]})
	}
	return all
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
