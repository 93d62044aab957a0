package cloneset

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// An update in place consists of two writes, and a third when it has ended:
//
//  1. to the pod's status: not ready. The same write contains the state Updating, the new revision's
//     labels, and what is still to be done (apps.AnnotationInPlaceGrace);
//  2. to its spec, once the grace period is over: the images and metadata, and the previous status
//     of the containers (apps.AnnotationInPlaceState);
//  3. to its status, when the containers run the new spec: ready again, and the next state.
//
// Each write is for the observed version of the pod, or for the version that the write before has created, so
// that it changes neither another pod of the same name (kruise #2276) nor a version that the plan has not
// seen. After a crash in between, the next plan continues from the annotation.

// inPlaceState returns the record of the pod's last update in place, nil if there is none that can be read.
func (u *unit) inPlaceState() *kruise.InPlaceUpdateState {
	if u.InPlaceState == "" {
		return nil
	}
	if u.update == nil {
		u.update = &kruise.InPlaceUpdateState{}
		if json.Unmarshal([]byte(u.InPlaceState), u.update) != nil {
			u.update = &kruise.InPlaceUpdateState{}
		}
	}
	return u.update
}

// updateDone reports whether a pod's update in place has ended. A pod that is Updating without a record has
// nothing to wait for.
func (p *plan) updateDone(u *unit) bool {
	s := u.inPlaceState()
	return u.InPlaceGrace == "" && (s == nil || !hasNext(s) && p.batchDone(u, s))
}

// batchDone reports whether the changed containers run their new spec.
func (p *plan) batchDone(u *unit, s *kruise.InPlaceUpdateState) bool {
	return len(p.unfinished(u, s)) == 0
}

// unfinished returns the containers that do not run their new spec yet, with their status before the change.
func (p *plan) unfinished(u *unit, s *kruise.InPlaceUpdateState) map[string]kruise.InPlaceContainerStatus {
	left := map[string]kruise.InPlaceContainerStatus{}
	for name, was := range s.LastContainerStatuses {
		is, spec := u.status(name), u.container(name)
		if spec == nil {
			continue
		}
		if is == nil || !p.finished(u, s, was, is, spec) {
			left[name] = was
		}
	}
	return left
}

// finished reports whether a container runs its new spec. A new container ID alone does not prove it: the old
// container may have crashed and been restarted from the spec that the kubelet had observed by then.
func (p *plan) finished(u *unit, s *kruise.InPlaceUpdateState, was kruise.InPlaceContainerStatus, is *Status, spec *Container) bool {
	restarted := was.ContainerID != "" && is.ContainerID != was.ContainerID
	otherImage := is.ImageID != was.ImageID
	// Kruise records the ID of a container's image, but not its name. For a container that had not started,
	// both are empty.
	byKruise := was.Image == "" && was.ImageID != ""
	switch {
	case u.Behind > 0,
		was.ContainerID != "" && is.ContainerID == "",
		s.UpdateEnvFromMetadata && was.ContainerID != "" && !restarted,
		s.UpdateResources && is.Resources != nil && !equality.Semantic.DeepEqual(compute(*is.Resources), compute(spec.Resources)):
		return false
	case was.KeepsImage, sameImage(is.Image, spec.Image):
		return true
	case !otherImage && !restarted:
		return false
	case otherImage && (byKruise || was.Image != "" && !sameImage(is.Image, was.Image)):
		return true // Kruise compares only the ID
	}
	// The runtime has two names for one image, or the tag was moved, or the container was started before the
	// kubelet had observed the change: after a restart, or as the first container if none had started. In the
	// last case the kubelet is terminating it, which takes at most the pod's grace period.
	if is.Started.IsZero() {
		return byKruise // nothing more is known of the container
	}
	if wait := is.Started.Add(u.Grace + startMargin).Sub(p.now); wait > 0 {
		p.decision.WakeIn(wait)
		return false
	}
	return true
}

// startMargin is how long a container must run, beyond its pod's grace period, to count as started from the newest
// spec that its kubelet has observed, if its image does not show it.
const startMargin = 10 * time.Second

// sameImage reports whether two names mean the same image. A runtime reports the whole name.
func sameImage(a, b string) bool { return a == b || wholeName(a) == wholeName(b) }

// wholeName returns an image's name with the default registry and tag added.
func wholeName(image string) string {
	host, path, found := strings.Cut(image, "/")
	switch {
	case !found:
		image = "docker.io/library/" + image
	case host == "docker.io" && !strings.Contains(path, "/"):
		image = "docker.io/library/" + path
	case host != "localhost" && !strings.ContainsAny(host, ".:"):
		image = "docker.io/" + image
	}
	if !strings.ContainsAny(image[strings.LastIndexByte(image, '/'):], ":@") {
		image += ":latest"
	}
	return image
}

// compute returns the resources that can be changed in an existing pod.
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

// startInPlaceUpdate updates a pod in place, including the parts of an earlier update that were not made yet.
func (p *plan) startInPlaceUpdate(u *unit, to *Revision, c *change) {
	p.decision.Tally.Updated++
	state := kruise.InPlaceUpdateState{
		Revision: to.name(), UpdateTimestamp: metav1.NewTime(p.now), LastContainerStatuses: map[string]kruise.InPlaceContainerStatus{},
		PreparingNormal: u.neverNormal(),
	}
	if before := u.inPlaceState(); before != nil && u.state == kruise.StateUpdating {
		c = c.withPending(before, to.Template)
		if left := p.unfinished(u, before); len(left) > 0 {
			state.LastContainerStatuses = left
			state.UpdateEnvFromMetadata, state.UpdateResources = before.UpdateEnvFromMetadata, before.UpdateResources
		}
	}
	if order := u.ordered(); order != nil {
		c = c.replacingOrder(order, u, to.Template)
	} else if c.onlyMetadata() {
		p.relabel(u, c, revisionLabels(to))
		return
	}
	state.KeepsTraffic = p.keepsTraffic(u, c)
	todo := kruise.InPlaceUpdateSpec{
		Revision: to.name(), ContainerImages: c.images, ContainerResources: c.resources, UpdateEnvFromMetadata: len(c.env) > 0,
	}
	todo.MetaDataPatch = c.metadata
	// A pod whose containers were not changed yet and that returns to its revision needs no grace period, and
	// neither does a pod that stays ready.
	if s := p.set.Spec.UpdateStrategy.InPlaceUpdateStrategy; s != nil && !c.onlyMetadata() && !state.KeepsTraffic {
		todo.GraceSeconds = s.GracePeriodSeconds
	}
	first := patch{}
	first.Metadata.Labels = p.updatingLabels(to)
	first.Metadata.Annotations = map[string]any{
		kruise.AnnotationStateSince: p.stamp(), kruise.AnnotationInPlaceGrace: text{todo}, kruise.AnnotationInPlaceState: text{state},
	}
	if conditions := p.conditionsOf(u, kruise.StateUpdating, state.KeepsTraffic); len(conditions) > 0 {
		first.Status = &patchStatus{Conditions: conditions}
	}
	u.acted = true
	a := first.write(u, updatingInPlace, "it is to be updated in place to "+to.name())
	if todo.GraceSeconds == 0 {
		a.Then = p.finish(u, &todo, c, &state, to)
	} else if !p.Past.Rejected[u.UID] { // else the period probably does not begin, and each sync would wake for it
		p.decision.WakeIn(time.Duration(todo.GraceSeconds) * time.Second)
	}
	p.decision.Act(a)
}

// keepsTraffic reports whether a pod stays ready during a change: one of cpu or memory that restarts no
// container. A pod that is not ready already stays so.
func (p *plan) keepsTraffic(u *unit, c *change) bool {
	if len(c.resources) == 0 || len(c.images)+len(c.env) > 0 {
		return false
	}
	if before := u.inPlaceState(); u.state == kruise.StateUpdating && (before == nil || !before.KeepsTraffic) {
		return false
	}
	for name, next := range c.resources {
		if is := u.container(name); is == nil || is.restartsFor(next) {
			return false
		}
	}
	return true
}

// restartsFor reports whether the kubelet restarts a container to change its resources.
func (c *Container) restartsFor(next corev1.ResourceRequirements) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(policy corev1.ContainerResizePolicy) bool {
		request, limit := c.Resources.Requests[policy.ResourceName], c.Resources.Limits[policy.ResourceName]
		return policy.RestartPolicy == corev1.RestartContainer &&
			(request.Cmp(next.Requests[policy.ResourceName]) != 0 || limit.Cmp(next.Limits[policy.ResourceName]) != 0)
	})
}

// The reason codes of the writes of an update in place.
const (
	updatingInPlace = "UpdatingPodInPlace" // the pod becomes not ready; the other writes follow after the grace period
	resized         = "Resized"
	updatedInPlace  = "SuccessfulUpdatePodInPlace" // the spec, or the only change, is that of the revision
	nextContainers  = "NextContainers"
)

// InPlace reports whether a reason code is that of a write of an update in place.
func InPlace(code string) bool {
	switch code {
	case updatingInPlace, resized, updatedInPlace, nextContainers:
		return true
	}
	return false
}

// revisionLabels returns the labels of a pod of a revision.
func revisionLabels(to *Revision) map[string]*string {
	return map[string]*string{kruise.LabelRevision: ptrTo(to.name()), kruise.LabelTemplateHash: ptrTo(shortHash(to.name()))}
}

// updatingLabels returns the labels of pods that are being updated to a revision; the pods share the map.
func (p *plan) updatingLabels(to *Revision) map[string]*string {
	all, ok := p.updating[to]
	if !ok {
		all = revisionLabels(to)
		all[kruise.LabelState] = ptrTo(string(kruise.StateUpdating))
		if p.updating == nil {
			p.updating = map[*Revision]map[string]*string{}
		}
		p.updating[to] = all
	}
	return all
}

// relabel makes an update that changes only metadata: the pod stays ready.
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
		b.Metadata.Labels[kruise.LabelState] = ptrTo(string(to))
		b.Metadata.Annotations = maps.Clone(c.annotations)
		b.Metadata.Annotations[kruise.AnnotationStateSince] = p.stamp()
		if conditions := p.conditions(u, to); len(conditions) > 0 {
			b.Status = &patchStatus{Conditions: conditions}
		}
	}
	p.patch(u, b, updatedInPlace, "updated in place: only its metadata has changed")
}

// stateAfter returns the state of a pod after an update of metadata only.
func (p *plan) stateAfter(u *unit) kruise.LifecycleState {
	switch {
	case u.state == kruise.StatePreparingNormal, u.state == kruise.StateUpdating && !p.updateDone(u):
		return u.state
	case !complete(p.hooks().InPlaceUpdate, u.Pod):
		return kruise.StateUpdated
	case p.startedBeforeNormal(u):
		return kruise.StatePreparingNormal
	case u.state == "":
		return ""
	}
	return kruise.StateNormal
}

// orderedAnnotations returns the current values of the annotations that an ordered update will change.
func orderedAnnotations(order string, all map[string]string) (are map[string]string) {
	var todo kruise.InPlaceUpdateSpec
	if json.Unmarshal([]byte(order), &todo) != nil || len(todo.MetaDataPatch) == 0 {
		return nil
	}
	var b patch
	_ = json.Unmarshal(todo.MetaDataPatch, &b) // an order that cannot be parsed changes nothing
	for key := range b.Metadata.Annotations {
		if value, ok := all[key]; ok {
			if are == nil {
				are = map[string]string{}
			}
			are[key] = value
		}
	}
	return are
}

// ordered returns what an update in place has still to change in the pod's spec, nil if nothing.
func (u *unit) ordered() *kruise.InPlaceUpdateSpec {
	if u.InPlaceGrace == "" {
		return nil
	}
	order := &kruise.InPlaceUpdateSpec{}
	_ = json.Unmarshal([]byte(u.InPlaceGrace), order) // an order that cannot be parsed changes nothing
	return order
}

// finishOrders continues updates that have still to change the spec. It runs after all steps that may claim
// the pod for something else, such as another revision: an order that the API rejects, because of a typo or a
// quota, must not block a pod forever.
func (p *plan) finishOrders() {
	for i := range p.units {
		if u := &p.units[i]; u.InPlaceGrace != "" && !u.acted && u.state != kruise.StatePreparingDelete {
			p.finishGrace(u)
		}
	}
}

// finishGrace continues an update that has still to change the pod's spec.
func (p *plan) finishGrace(u *unit) {
	var todo kruise.InPlaceUpdateSpec
	err := json.Unmarshal([]byte(u.InPlaceGrace), &todo)
	to := p.byLabel[todo.Revision]
	if err != nil || to == nil || to != u.of {
		drop := patch{Metadata: patchMetadata{Annotations: map[string]any{kruise.AnnotationInPlaceGrace: nil}}}
		p.patch(u, drop, "Dropped", "the ordered change belongs to another revision")
		return
	}
	state := kruise.InPlaceUpdateState{Revision: to.name(), UpdateTimestamp: metav1.NewTime(p.now)}
	if s := u.inPlaceState(); s != nil { // without it the start is unknown, and the update does not wait
		state = *s
		if left := state.UpdateTimestamp.Add(time.Duration(todo.GraceSeconds) * time.Second).Sub(p.now); left > 0 {
			p.decision.WakeIn(left)
			return
		}
	}
	if conditions := p.conditionsOf(u, kruise.StateUpdating, state.KeepsTraffic); len(conditions) > 0 {
		// A write that committed long after its 504, or another client, has put the pod back into service.
		state.UpdateTimestamp = metav1.NewTime(p.now)
		again := patch{Status: &patchStatus{Conditions: conditions}}
		again.Metadata.Labels = p.updatingLabels(to)
		again.Metadata.Annotations = map[string]any{kruise.AnnotationStateSince: p.stamp(), kruise.AnnotationInPlaceState: text{state}}
		p.patch(u, again, updatingInPlace, "it became ready before its update in place")
		return
	}
	u.acted = true
	p.decision.Act(*p.finish(u, &todo, changeIn(&todo, to), &state, to))
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
