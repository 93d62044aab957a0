package cloneset

import (
	"encoding/json"
	"maps"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// change is what leads from one template to another in a pod that exists.
type change struct {
	// why it cannot be made, "" if it can.
	why         string
	images      map[string]string
	resources   map[string]corev1.ResourceRequirements
	labels      map[string]*string // nil deletes, as in annotations
	annotations map[string]any
	// metadata is the patch of both.
	metadata []byte
	// env are containers with environment variables from metadata that changes: they have
	// to begin anew. keys are, in a part of a change, what those read.
	env  []string
	keys map[string][]metadataKey

	// What many pods' writes share is made once: the containers that begin anew, and the
	// images in a patch.
	restarted []string
	spec      *patchSpec
}

func (c *change) onlyMetadata() bool {
	return len(c.images) == 0 && len(c.resources) == 0 && len(c.env) == 0
}

// changeTo is what leads from a pod's revision to another. Many pods share an answer.
func (p *plan) changeTo(from, to *Revision) *change {
	if from == nil {
		return &change{why: "the revision that the pod was made of is gone"}
	}
	key := [2]*Revision{from, to}
	if p.lastChange != nil && p.lastKey == key {
		return p.lastChange // as nearly always
	}
	c, ok := p.changes[key]
	if !ok {
		c = p.newChange(from, to)
		if p.changes == nil {
			p.changes = map[[2]*Revision]*change{}
		}
		p.changes[key] = c
	}
	p.lastKey, p.lastChange = key, c
	return c
}

func (p *plan) newChange(from, to *Revision) *change {
	c := changeOf(from.Template, to.Template)
	if c.why != "" {
		// What the API fills in may tell less: a template that says imagePullPolicy and one
		// that does not mean the same.
		if filled := changeOf(from.Defaulted, to.Defaulted); filled.why == "" {
			c = filled
		}
	}
	if c.why == "" && p.set.Spec.UpdateStrategy.Type != v1alpha1.InPlaceOnly && claimsDiffer(from, to) {
		return &change{why: "spec.volumeClaimTemplates is another"}
	}
	return c
}

// claimsDiffer tells whether the claim templates of two revisions are known to differ.
// Kruise's revisions do not have them.
func claimsDiffer(a, b *Revision) bool {
	known := func(r *Revision) bool { _, ok := r.Object.Annotations[AnnotationClaims]; return ok }
	return known(a) && known(b) && !sameClaims(a.Claims, b.Claims)
}

// sameClaims tells whether claims of two lists of templates would be the same. As with
// Kruise (pkg/util/volumeclaimtemplate), names and specs count, and neither order nor labels;
// what the API fills in is filled in.
func sameClaims(a, b []corev1.PersistentVolumeClaim) bool {
	specs := func(templates []corev1.PersistentVolumeClaim) map[string]corev1.PersistentVolumeClaimSpec {
		all := make(map[string]corev1.PersistentVolumeClaimSpec, len(templates))
		for i := range templates {
			spec := templates[i].Spec
			if spec.VolumeMode == nil {
				spec.VolumeMode = ptrTo(corev1.PersistentVolumeFilesystem)
			}
			all[templates[i].Name] = spec
		}
		return all
	}
	return equality.Semantic.DeepEqual(specs(a), specs(b))
}

// changeOf compares two templates. In a pod, only metadata, images, and cpu and memory may
// be changed.
func changeOf(a, b *corev1.PodTemplateSpec) *change {
	if why := unchangeable(a, b); why != "" {
		return &change{why: why}
	}
	c := &change{
		images: map[string]string{}, resources: map[string]corev1.ResourceRequirements{},
		labels: keysChanged(a.Labels, b.Labels), annotations: map[string]any{},
	}
	for key, value := range keysChanged(a.Annotations, b.Annotations) {
		c.annotations[key] = nil
		if value != nil {
			c.annotations[key] = *value
		}
	}
	var err error
	if c.metadata, err = json.Marshal(patch{Metadata: patchMetadata{Labels: c.labels, Annotations: c.annotations}}); err != nil {
		panic(err) // strings
	}
	for i := range a.Spec.Containers {
		was, is := &a.Spec.Containers[i], &b.Spec.Containers[i]
		if was.Image != is.Image {
			c.images[is.Name] = is.Image
		}
		if next := inPod(is.Resources); !equality.Semantic.DeepEqual(inPod(was.Resources), next) {
			c.resources[is.Name] = next
		}
	}
	c.env = c.readers(b)
	if len(c.resources) > 0 && qosClass(&a.Spec) != qosClass(&b.Spec) {
		return &change{why: "spec.template.spec.containers[*].resources: the pod would be of another quality of service"}
	}
	return c
}

// unchangeable is the first thing that differs and cannot be changed in a pod.
func unchangeable(a, b *corev1.PodTemplateSpec) string {
	if len(a.Spec.Containers) != len(b.Spec.Containers) {
		return "spec.template.spec.containers: another number of containers"
	}
	if !equality.Semantic.DeepEqual(a.Finalizers, b.Finalizers) {
		return "spec.template.metadata.finalizers: they are for pods that are made"
	}
	rest := func(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
		t = t.DeepCopy()
		t.ObjectMeta = metav1.ObjectMeta{} // labels and annotations are changed, the rest is no pod's
		for i := range t.Spec.Containers {
			t.Spec.Containers[i].Image, t.Spec.Containers[i].Resources = "", corev1.ResourceRequirements{}
		}
		return t
	}
	restA, restB := rest(a), rest(b)
	for i := range restA.Spec.Containers {
		if !equality.Semantic.DeepEqual(restA.Spec.Containers[i], restB.Spec.Containers[i]) {
			return "spec.template.spec.containers[" + strconv.Itoa(i) + "]: more than image and resources"
		}
		if !onlyCompute(inPod(a.Spec.Containers[i].Resources), inPod(b.Spec.Containers[i].Resources)) {
			return "spec.template.spec.containers[" + strconv.Itoa(i) + "].resources: more than cpu and memory"
		}
	}
	restA.Spec.Containers, restB.Spec.Containers = nil, nil
	if !equality.Semantic.DeepEqual(restA, restB) {
		return "spec.template.spec: more than containers"
	}
	return ""
}

// onlyCompute tells whether resources differ in cpu and memory at most, and none of them
// is taken away (KEP-1287).
func onlyCompute(a, b corev1.ResourceRequirements) bool {
	if !equality.Semantic.DeepEqual(a.Claims, b.Claims) {
		return false
	}
	same := func(a, b corev1.ResourceList) bool {
		for name := range merged(a, b) {
			was, is := a[name], b[name]
			_, had := a[name]
			_, has := b[name]
			compute := name == corev1.ResourceCPU || name == corev1.ResourceMemory
			if was.Cmp(is) != 0 && !compute || had && !has || has && !had && !compute {
				return false
			}
		}
		return true
	}
	return same(a.Requests, b.Requests) && same(a.Limits, b.Limits)
}

// inPod are a template's resources as a pod that is made of it has them: where there is a
// limit and no request, the limit is the request (SetDefaults_Pod in
// k8s.io/kubernetes/pkg/apis/core/v1). A pod that exists has its requests already, and
// nobody would bring them after another limit.
func inPod(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	requests := maps.Clone(r.Requests)
	for name, limit := range r.Limits {
		if _, ok := requests[name]; ok {
			continue
		}
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		requests[name] = limit
	}
	r.Requests = requests
	return r
}

func merged(a, b corev1.ResourceList) corev1.ResourceList {
	all := maps.Clone(a)
	if all == nil {
		all = corev1.ResourceList{}
	}
	maps.Copy(all, b)
	return all
}

func keysChanged(a, b map[string]string) map[string]*string {
	changed := map[string]*string{}
	for key := range a {
		if _, ok := b[key]; !ok {
			changed[key] = nil
		}
	}
	for key, value := range b {
		if was, ok := a[key]; !ok || was != value {
			changed[key] = &value
		}
	}
	return changed
}

var metadataField = regexp.MustCompile(`^metadata\.(labels|annotations)\['(.+)'\]$`)

// metadataKey is a label or an annotation.
type metadataKey struct {
	annotation bool
	name       string
}

// value is what a key is changed to; without one, it goes.
func (c *change) value(k metadataKey) (string, bool) {
	if !k.annotation {
		value := c.labels[k.name]
		if value == nil {
			return "", false
		}
		return *value, true
	}
	value, ok := c.annotations[k.name].(string)
	return value, ok
}

// reads are the keys that change and that a container has variables from.
func (c *change) reads(container *corev1.Container) (keys []metadataKey) {
	for _, e := range container.Env {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			continue
		}
		field := metadataField.FindStringSubmatch(e.ValueFrom.FieldRef.FieldPath)
		if field == nil {
			continue
		}
		k := metadataKey{annotation: field[1] == "annotations", name: field[2]}
		_, changed := c.labels[k.name]
		if k.annotation {
			_, changed = c.annotations[k.name]
		}
		if changed {
			keys = append(keys, k)
		}
	}
	return keys
}

// readers are the containers of a template that have variables from what changes.
func (c *change) readers(t *corev1.PodTemplateSpec) (names []string) {
	for i := range t.Spec.Containers {
		if container := &t.Spec.Containers[i]; len(c.reads(container)) > 0 {
			names = append(names, container.Name)
		}
	}
	return names
}

// qosClass is the class of a pod's containers (k8s.io/kubernetes/pkg/apis/core/v1/helper/qos):
// Guaranteed with limits that are the requests, of cpu and memory and of all containers,
// BestEffort with neither, else Burstable.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	compute := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	none, guaranteed := true, true
	for _, all := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range all {
			r := &all[i].Resources
			for _, name := range compute {
				limit, limited := r.Limits[name]
				request, requested := r.Requests[name]
				limited, requested = limited && !limit.IsZero(), requested && !request.IsZero()
				none = none && !limited && !requested
				guaranteed = guaranteed && limited && (!requested || limit.Cmp(request) == 0)
			}
		}
	}
	switch {
	case none:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
