package cloneset

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// priorityVariable is Kruise's: containers with a higher number are updated before those with a lower one.
const priorityVariable = "KRUISE_CONTAINER_PRIORITY"

// launchPriorities returns the launch priorities of a template's containers as Kruise's webhook for pods
// computes them: with the annotation, by the order of the list; otherwise by the variable, 0 for a container
// without one. It returns nil if all are equal.
func launchPriorities(t *corev1.PodTemplateSpec) []int {
	all := make([]int, len(t.Spec.Containers))
	ordered := t.Annotations[kruise.AnnotationLaunchPriority] == kruise.LaunchOrdered
	for i := range t.Spec.Containers {
		if ordered {
			all[i] = -i
			continue
		}
		for _, e := range t.Spec.Containers[i].Env {
			if n, err := strconv.Atoi(e.Value); e.Name == priorityVariable && err == nil {
				all[i] = n
			}
		}
	}
	if len(all) == 0 || slices.Min(all) == slices.Max(all) {
		return nil
	}
	return all
}

// finish returns the second write of an update, which changes the spec. Containers with a lower launch
// priority wait for those with a higher one.
func (p *plan) finish(u *unit, todo *kruise.InPlaceUpdateSpec, c *change, state *kruise.InPlaceUpdateState, to *Revision) *workload.Action {
	now, later := p.split(c, to)
	s := *state
	s.LastContainerStatuses = maps.Clone(state.LastContainerStatuses)
	s.UpdateResources = state.UpdateResources || len(todo.ContainerResources) > 0
	names := now.containers()
	if len(todo.ContainerResources) > 0 {
		names = slices.Concat(names, sorted(todo.ContainerResources))
		slices.Sort(names)
		names = slices.Compact(names)
	}
	p.recordBatch(u, &s, names, now, later)

	b := now.patch(u)
	b.Metadata.Annotations[kruise.AnnotationInPlaceGrace] = nil
	b.Metadata.Annotations[kruise.AnnotationInPlaceState] = text{s}
	a := b.write(u, updatedInPlace, "updated in place to "+to.name())
	if len(todo.ContainerResources) == 0 {
		return &a
	}
	resize := patch{Spec: &patchSpec{}}
	for _, name := range u.inOrder(sorted(todo.ContainerResources)) {
		resize.Spec.Containers = append(resize.Spec.Containers, patchContainer{Name: name, Resources: ptrTo(todo.ContainerResources[name])})
	}
	before := resize.write(u, resized, "its resources are those of "+to.name())
	before.Subresource, before.Then = "resize", &a
	return &before
}

// changeIn returns the change that an ordered update has still to make.
func changeIn(todo *kruise.InPlaceUpdateSpec, to *Revision) *change {
	b := patch{}
	_ = json.Unmarshal(todo.MetaDataPatch, &b) // Kruise's patch has the same form; one that cannot be parsed changes nothing
	c := &change{images: todo.ContainerImages, labels: b.Metadata.Labels, annotations: b.Metadata.Annotations}
	if todo.UpdateEnvFromMetadata {
		c.env = c.readers(to.Template)
	}
	return c
}

// parts are the parts of a change that are made now and later. Many pods share them.
type parts struct{ now, later *change }

func (p *plan) split(c *change, to *Revision) (now, later *change) {
	found, ok := p.splits[c]
	if !ok {
		found.now, found.later = c.split(to.Template)
		if p.splits == nil {
			p.splits = map[*change]parts{}
		}
		p.splits[c] = found
	}
	return found.now, found.later
}

// nextBatch changes the containers that have waited for others. It reports whether it did, or whether
// containers still wait.
func (p *plan) nextBatch(u *unit) bool {
	s := u.inPlaceState()
	if s == nil || !hasNext(s) {
		return false
	}
	if !p.batchDone(u, s) || s.PreCheckBeforeNext != nil && slices.ContainsFunc(s.PreCheckBeforeNext.ContainersRequiredReady, func(name string) bool {
		is := u.status(name)
		return is == nil || !is.Ready
	}) {
		return true
	}
	to := u.of
	if to == nil {
		return true
	}
	c := (&change{}).withPending(s, to.Template)
	now, later := c.split(to.Template)
	next := *s
	next.LastContainerStatuses, next.UpdateEnvFromMetadata = nil, false
	p.recordBatch(u, &next, now.containers(), now, later)
	b := now.patch(u)
	b.Metadata.Annotations[kruise.AnnotationInPlaceState] = text{next}
	p.patch(u, b, nextContainers, "the containers before are ready")
	return true
}

// hasNext reports whether containers wait for others.
func hasNext(s *kruise.InPlaceUpdateState) bool {
	return len(s.NextContainerImages)+len(s.NextContainerRefMetadata) > 0
}

// recordBatch records which containers are changed now (names, sorted), with their status, and the part of the change
// that is made later. It keeps the records of earlier containers.
func (p *plan) recordBatch(u *unit, s *kruise.InPlaceUpdateState, names []string, now, later *change) {
	s.UpdateImages = len(now.images) > 0
	s.UpdateEnvFromMetadata = s.UpdateEnvFromMetadata || len(now.env) > 0
	if s.LastContainerStatuses == nil {
		s.LastContainerStatuses = map[string]kruise.InPlaceContainerStatus{}
	}
	for _, name := range names {
		is := u.containerBefore(name)
		_, changed := now.images[name]
		if before, unfinished := s.LastContainerStatuses[name]; !changed && (!unfinished || before.KeepsImage) {
			is.Image, is.KeepsImage = "", true
		}
		s.LastContainerStatuses[name] = is
	}
	s.ContainerBatchesRecord = append(slices.Clone(s.ContainerBatchesRecord), kruise.InPlaceContainerBatch{Timestamp: metav1.NewTime(p.now), Containers: names})
	s.NextContainerImages, s.NextContainerRefMetadata, s.PreCheckBeforeNext = nil, nil, nil
	if len(later.containers()) == 0 {
		return
	}
	s.NextContainerImages = later.images
	s.PreCheckBeforeNext = &kruise.InPlacePreCheck{ContainersRequiredReady: now.containers()}
	s.NextContainerRefMetadata = map[string]metav1.ObjectMeta{}
	for _, name := range later.env {
		m := metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}
		for _, k := range later.keys[name] {
			if value, ok := later.value(k); ok && k.annotation {
				m.Annotations[k.name] = value
			} else if ok {
				m.Labels[k.name] = value
			}
		}
		s.NextContainerRefMetadata[name] = m
	}
}

// containerBefore returns the status of a container before its update.
func (u *unit) containerBefore(name string) kruise.InPlaceContainerStatus {
	if s := u.status(name); s != nil {
		return kruise.InPlaceContainerStatus{ImageID: s.ImageID, ContainerID: s.ContainerID, Image: s.Image}
	}
	return kruise.InPlaceContainerStatus{}
}

// containers returns the names of the containers that the change restarts, sorted. They are computed once and
// must not be changed.
func (c *change) containers() []string {
	if c.restarted == nil {
		names := append(sorted(c.images), c.env...)
		slices.Sort(names)
		c.restarted = slices.Compact(names)
	}
	return c.restarted
}

// patch returns the patch of a pod's metadata and images.
func (c *change) patch(u *unit) (b patch) {
	b.Metadata.Labels, b.Metadata.Annotations = c.labels, map[string]any{}
	maps.Copy(b.Metadata.Annotations, c.annotations)
	if len(c.images) > 0 && (c.spec == nil || !u.hasInOrder(c.spec.Containers)) {
		c.spec = &patchSpec{}
		for _, name := range u.inOrder(sorted(c.images)) {
			c.spec.Containers = append(c.spec.Containers, patchContainer{Name: name, Image: c.images[name]})
		}
	}
	b.Spec = c.spec
	return b
}

// inOrder sorts names of containers in the pod's order. A merge takes over the order of the patch, and the API
// rejects a pod whose containers are reordered.
func (u *unit) inOrder(names []string) []string {
	place := func(name string) int {
		return slices.IndexFunc(u.Containers, func(c Container) bool { return c.Name == name })
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return names
}

// hasInOrder reports whether a list that was computed for another pod is in this pod's order, as it nearly
// always is.
func (u *unit) hasInOrder(all []patchContainer) bool {
	found := 0
	for i := range u.Containers {
		if found < len(all) && all[found].Name == u.Containers[i].Name {
			found++
		}
	}
	return found == len(all)
}

// withPending returns the change extended by what an earlier update has left to do, with the template's current
// values.
func (c *change) withPending(s *kruise.InPlaceUpdateState, to *corev1.PodTemplateSpec) *change {
	if !hasNext(s) {
		return c
	}
	sum := &change{images: map[string]string{}, resources: c.resources, labels: map[string]*string{}, annotations: map[string]any{}}
	maps.Copy(sum.images, c.images)
	for i := range to.Spec.Containers {
		if container := &to.Spec.Containers[i]; s.NextContainerImages[container.Name] != "" {
			sum.images[container.Name] = container.Image
		}
	}
	for _, m := range s.NextContainerRefMetadata {
		for key := range m.Labels {
			sum.labelOf(to, key)
		}
		for key := range m.Annotations {
			sum.annotationOf(to, key)
		}
	}
	return sum.withMetadata(c, to)
}

// replacingOrder returns the change of a pod for which another update was ordered but not made: parts of the order
// that are not wanted any more are left out, and the others are kept.
func (c *change) replacingOrder(order *kruise.InPlaceUpdateSpec, u *unit, to *corev1.PodTemplateSpec) *change {
	sum := &change{images: map[string]string{}, resources: map[string]corev1.ResourceRequirements{}, labels: map[string]*string{}, annotations: map[string]any{}}
	for i := range to.Spec.Containers {
		container := &to.Spec.Containers[i]
		is := u.container(container.Name)
		if has(order.ContainerImages, container.Name) || has(c.images, container.Name) {
			if is == nil || is.Image != container.Image {
				sum.images[container.Name] = container.Image
			}
		}
		if has(order.ContainerResources, container.Name) || has(c.resources, container.Name) {
			if next := inPod(container.Resources); is == nil || !equality.Semantic.DeepEqual(is.Resources, next) {
				sum.resources[container.Name] = next
			}
		}
	}
	pending := changeIn(order, &Revision{Template: to})
	for key := range pending.labels {
		sum.labelOf(to, key)
	}
	for key := range pending.annotations {
		sum.annotationOf(to, key)
	}
	sum.withMetadata(c, to)
	for key, value := range sum.labels {
		if is, ok := u.Labels[key]; ok == (value != nil) && (!ok || is == *value) {
			delete(sum.labels, key)
		}
	}
	for key := range pending.annotations { // the values of other annotations in the pod are unknown
		value := sum.annotations[key]
		if is, ok := u.Ordered[key]; ok == (value != nil) && (!ok || value == any(is)) {
			delete(sum.annotations, key)
		}
	}
	return sum.withMetadata(&change{}, to)
}

func has[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

// labelOf and annotationOf make a change set a key to the template's value, if the template has one.
func (c *change) labelOf(to *corev1.PodTemplateSpec, key string) {
	c.labels[key] = nil
	if value, ok := to.Labels[key]; ok {
		c.labels[key] = &value
	}
}

func (c *change) annotationOf(to *corev1.PodTemplateSpec, key string) {
	c.annotations[key] = nil
	if value, ok := to.Annotations[key]; ok {
		c.annotations[key] = value
	}
}

// and adds the metadata of another change, and recomputes what depends on it.
func (c *change) withMetadata(other *change, to *corev1.PodTemplateSpec) *change {
	maps.Copy(c.labels, other.labels)
	maps.Copy(c.annotations, other.annotations)
	var err error
	if c.metadata, err = json.Marshal(patch{Metadata: patchMetadata{Labels: c.labels, Annotations: c.annotations}}); err != nil {
		panic(err) // strings can always be encoded
	}
	c.env = c.readers(to)
	return c
}

// split returns the part of a change that can be made now: the containers with the highest launch priority,
// and those that read metadata that one of these reads, because they restart with it. Metadata that only other
// containers read waits with them.
func (c *change) split(t *corev1.PodTemplateSpec) (now, later *change) {
	touched := c.containers()
	keys := map[string][]metadataKey{}
	priorities := launchPriorities(t)
	priority, highest := map[string]int{}, math.MinInt
	for i := range t.Spec.Containers {
		container := &t.Spec.Containers[i]
		if !slices.Contains(touched, container.Name) {
			continue
		}
		if slices.Contains(c.env, container.Name) {
			keys[container.Name] = c.reads(container)
		}
		if priorities != nil {
			priority[container.Name], highest = priorities[i], max(highest, priorities[i])
		}
	}
	waits := map[string]bool{}
	for _, name := range touched {
		if n, ok := priority[name]; ok && n < highest {
			waits[name] = true
		}
	}
	// A key that a container of this batch reads is changed now, and so is a key that is deleted: the record
	// of what is left contains only values.
	kept := map[metadataKey]bool{}
	for again := true; again; {
		again = false
		for _, name := range touched {
			changed := slices.ContainsFunc(keys[name], func(k metadataKey) bool { _, ok := c.value(k); return kept[k] || !ok })
			if waits[name] && changed {
				delete(waits, name)
				again = true
			}
			for _, k := range keys[name] {
				if !waits[name] && !kept[k] {
					kept[k], again = true, true
				}
			}
		}
	}
	now = &change{images: map[string]string{}, labels: maps.Clone(c.labels), annotations: maps.Clone(c.annotations), keys: keys}
	later = &change{images: map[string]string{}, labels: c.labels, annotations: c.annotations, keys: keys}
	for _, name := range touched {
		to := now
		if waits[name] {
			to = later
			for _, k := range keys[name] {
				if k.annotation {
					delete(now.annotations, k.name)
				} else {
					delete(now.labels, k.name)
				}
			}
		}
		if image, ok := c.images[name]; ok {
			to.images[name] = image
		}
		if slices.Contains(c.env, name) {
			to.env = append(to.env, name)
		}
	}
	return now, later
}
