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

// change is the difference between two templates, as it is applied to an existing pod.
type change struct {
	// why is the reason why the change is impossible in an existing pod, "" if it is possible.
	why         string
	images      map[string]string
	resources   map[string]corev1.ResourceRequirements
	labels      map[string]*string // nil deletes, as in annotations
	annotations map[string]any
	// metadata is the patch of labels and annotations.
	metadata []byte
	// env are containers that have environment variables from changed metadata and therefore restart. keys
	// are, in a part of a change, the metadata that those read.
	env  []string
	keys map[string][]metadataKey

	// Values that the writes of many pods share, computed once: the containers that restart, and the images in
	// a patch.
	restarted []string
	spec      *patchSpec
}

func (c *change) onlyMetadata() bool {
	return len(c.images) == 0 && len(c.resources) == 0 && len(c.env) == 0
}

// changeTo returns the change from a pod's revision to another. Many pods share a result.
func (p *plan) changeTo(from, to *Revision) *change {
	if from == nil {
		return &change{why: "the revision of the pod does not exist any more"}
	}
	key := [2]*Revision{from, to}
	if p.lastChange != nil && p.lastKey == key {
		return p.lastChange // nearly always the same pair
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
		// The digest of the defaulted template decides: imagePullPolicy may be missing in one template and
		// have the default value in the other.
		if filled := changeOf(from.Defaulted, to.Defaulted); filled.why == "" {
			c = filled
		}
	}
	if c.why == "" && p.set.Spec.UpdateStrategy.Type != v1alpha1.InPlaceOnly && claimsDiffer(from, to) {
		return &change{why: "spec.volumeClaimTemplates has changed"}
	}
	return c
}

// claimsDiffer reports whether the claim templates of two revisions are known to differ. Kruise's revisions do
// not contain claim templates.
func claimsDiffer(a, b *Revision) bool {
	known := func(r *Revision) bool { _, ok := r.Object.Annotations[AnnotationClaims]; return ok }
	return known(a) && known(b) && !sameClaims(a.Claims, b.Claims)
}

// sameClaims reports whether two lists of templates give the same claims. As with Kruise
// (pkg/util/volumeclaimtemplate), it compares names and specs, ignores order and labels, and applies the API's
// defaults first.
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

// changeOf compares two templates. In an existing pod, only metadata, images, and cpu and memory can change.
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
		panic(err) // strings can always be encoded
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
		return &change{why: "spec.template.spec.containers[*].resources: the pod's QoS class would change"}
	}
	return c
}

// unchangeable returns the first difference that an existing pod cannot get, "" if there is none.
func unchangeable(a, b *corev1.PodTemplateSpec) string {
	if len(a.Spec.Containers) != len(b.Spec.Containers) {
		return "spec.template.spec.containers: the number of containers has changed"
	}
	if !equality.Semantic.DeepEqual(a.Finalizers, b.Finalizers) {
		return "spec.template.metadata.finalizers: they apply only to new pods"
	}
	rest := func(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
		t = t.DeepCopy()
		t.ObjectMeta = metav1.ObjectMeta{} // labels and annotations can change; other metadata does not apply to pods
		for i := range t.Spec.Containers {
			t.Spec.Containers[i].Image, t.Spec.Containers[i].Resources = "", corev1.ResourceRequirements{}
		}
		return t
	}
	restA, restB := rest(a), rest(b)
	for i := range restA.Spec.Containers {
		if !equality.Semantic.DeepEqual(restA.Spec.Containers[i], restB.Spec.Containers[i]) {
			return "spec.template.spec.containers[" + strconv.Itoa(i) + "]: more than image and resources has changed"
		}
		if !onlyCompute(inPod(a.Spec.Containers[i].Resources), inPod(b.Spec.Containers[i].Resources)) {
			return "spec.template.spec.containers[" + strconv.Itoa(i) + "].resources: more than cpu and memory has changed"
		}
	}
	restA.Spec.Containers, restB.Spec.Containers = nil, nil
	if !equality.Semantic.DeepEqual(restA, restB) {
		return "spec.template.spec: more than containers has changed"
	}
	return ""
}

// onlyCompute reports whether resources differ at most in cpu and memory, and none is removed (KEP-1287).
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

// inPod returns a template's resources as a new pod gets them: a limit without a request is also the request
// (SetDefaults_Pod in k8s.io/kubernetes/pkg/apis/core/v1). An existing pod has requests already, and the API
// server does not adjust them when a limit changes.
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

// metadataKey is the key of a label or an annotation.
type metadataKey struct {
	annotation bool
	name       string
}

// value returns the new value of a key, and false if the key is deleted.
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

// reads returns the changed keys that a container has environment variables from.
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

// readers returns the containers of a template that have environment variables from changed keys.
func (c *change) readers(t *corev1.PodTemplateSpec) (names []string) {
	for i := range t.Spec.Containers {
		if container := &t.Spec.Containers[i]; len(c.reads(container)) > 0 {
			names = append(names, container.Name)
		}
	}
	return names
}

// qosClass returns the QoS class of a pod's containers (k8s.io/kubernetes/pkg/apis/core/v1/helper/qos):
// Guaranteed if all containers have limits for cpu and memory that equal the requests, BestEffort if none has
// either, otherwise Burstable.
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
