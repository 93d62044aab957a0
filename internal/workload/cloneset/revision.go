package cloneset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// AnnotationClaims on a ControllerRevision contains, as JSON, the set's claim templates when the revision was
// created. A pod of an old revision may mount a claim that the set does not have any more (kruise #1872).
const AnnotationClaims = "rehearse-k8s.github.io/volume-claim-templates"

// body is the data of a ControllerRevision, in Kruise's format, so that both controllers can read the
// revisions of the other.
type body struct {
	Spec struct {
		Template json.RawMessage `json:"template"`
	} `json:"spec"`
}

// ReadRevision decodes a ControllerRevision. defaulted applies the API's defaults.
func ReadRevision(o *appsv1.ControllerRevision, defaulted func(*corev1.PodTemplateSpec)) (*Revision, error) {
	r := &Revision{Object: o, Template: &corev1.PodTemplateSpec{}}
	var b body
	if err := json.Unmarshal(o.Data.Raw, &b); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s: data: %w", o.Namespace, o.Name, err)
	}
	if err := json.Unmarshal(b.Spec.Template, r.Template); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s: data.spec.template: %w", o.Namespace, o.Name, err)
	}
	if text := o.Annotations[AnnotationClaims]; text != "" {
		if err := json.Unmarshal([]byte(text), &r.Claims); err != nil {
			return nil, fmt.Errorf("ControllerRevision %s/%s: annotation %s: %w", o.Namespace, o.Name, AnnotationClaims, err)
		}
	}
	r.Defaulted = r.Template.DeepCopy()
	defaulted(r.Defaulted)
	r.Digest = Digest(r.Defaulted)
	return r, nil
}

func (r *Revision) name() string { return r.Object.Name }

// IsNamedBy reports whether a set of this name, after so many collisions, would give the revision the name that it
// has. Revisions of other kinds of workloads have other names.
func (r *Revision) IsNamedBy(set string, collisions int32) bool {
	for n := range collisions + 1 {
		if revisionName(set, r.Digest, n) == r.name() {
			return true
		}
	}
	return false
}

// findRevisions finds the update revision and the current revision. If the template has no revision
// yet, it creates one, which the next plan observes, and leaves both nil.
func (p *plan) findRevisions() {
	highest := int64(0)
	for _, r := range p.Revisions {
		highest = max(highest, r.Object.Revision)
		if r.Digest == p.Digest && (p.updateRevision == nil || r.Object.Revision > p.updateRevision.Object.Revision) {
			p.updateRevision = r
		}
	}
	if p.updateRevision == nil {
		p.createRevision(highest + 1)
		return
	}
	if p.updateRevision.Object.Revision < highest { // the template has been rolled back
		metadata := []byte(`{}`)
		if !sameClaims(p.updateRevision.Claims, p.set.Spec.VolumeClaimTemplates) {
			metadata = p.renewClaims()
		}
		p.decision.Act(workload.Action{
			Verb: workload.Patch, Object: p.updateRevision.Object, PatchType: types.MergePatchType, Exact: true,
			Patch:  json.RawMessage(fmt.Appendf(nil, `{"metadata":%s,"revision":%d}`, metadata, highest+1)),
			Reason: workload.Reason{Code: "RolledBack", Text: fmt.Sprintf("the template is that of revision %s again", p.updateRevision.name())},
		})
	}
	p.currentRevision = p.updateRevision
	p.byLabel = make(map[string]*Revision, 2*len(p.Revisions))
	for _, r := range p.Revisions {
		p.byLabel[r.name()], p.byLabel[shortHash(r.name())] = r, r
		if r.name() == p.set.Status.CurrentRevision {
			p.currentRevision = r
		}
	}
}

// renewClaims updates the claim templates of the template's revision to the set's current ones, with which
// pods are created, and returns the metadata of the patch that stores them, nil if nothing has changed.
func (p *plan) renewClaims() []byte {
	r := *p.updateRevision
	r.Object, r.Claims = r.Object.DeepCopy(), p.set.Spec.VolumeClaimTemplates
	marks := claimMarks(r.Claims)
	if marks == nil {
		marks = map[string]any{AnnotationClaims: nil, kruise.AnnotationClaimsHash: nil}
	}
	for key, value := range marks {
		delete(r.Object.Annotations, key)
		if text, ok := value.(string); ok {
			metav1.SetMetaDataAnnotation(&r.Object.ObjectMeta, key, text)
		}
	}
	p.Revisions = slices.Clone(p.Revisions)
	p.Revisions[slices.Index(p.Revisions, p.updateRevision)] = &r
	p.updateRevision = &r
	metadata, err := json.Marshal(map[string]any{"annotations": marks})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return metadata
}

// claimMarks returns a revision's annotations about claim templates, nil if there are none.
func claimMarks(templates []corev1.PersistentVolumeClaim) map[string]any {
	if len(templates) == 0 {
		return nil
	}
	text, err := json.Marshal(templates)
	if err != nil {
		panic(err)
	}
	return map[string]any{AnnotationClaims: string(text), kruise.AnnotationClaimsHash: hashLetters(hashLength, string(text))}
}

func (p *plan) createRevision(number int64) {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.set.Spec.Template)
	if err != nil {
		panic(err) // a template that was decoded from JSON can be encoded
	}
	// The $patch directive is Kruise's: applied as a strategic merge patch, the template replaces the old one.
	template["$patch"] = "replace"
	// A map, so that keys are sorted: the API server compares bytes, and a client that sends a strategic merge
	// patch of another field, such as the garbage collector when it orphans dependents, encodes the data from
	// maps.
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		panic(err)
	}
	name := revisionName(p.set.Name, p.Digest, ptr.Deref(p.set.Status.CollisionCount, 0))
	o := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.set.Namespace, Name: name,
			Labels:          maps.Clone(p.set.Spec.Template.Labels),
			Annotations:     maps.Clone(p.set.Annotations), // rollout history shows kubernetes.io/change-cause
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.set, kind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[kruise.LabelRevision] = shortHash(name)
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	for key, value := range claimMarks(p.set.Spec.VolumeClaimTemplates) {
		o.Annotations[key] = value.(string)
	}
	p.decision.Act(workload.Action{Verb: workload.Create, Object: o, Reason: workload.Reason{Code: "NewRevision", Text: "the template has no revision yet"}})
	p.decision.Because("NewRevision", "the template has no revision yet: %s is created first", name)
}

var kind = v1alpha1.GroupVersion.WithKind("CloneSet")

// revisionOf returns the revision that a pod was created from or updated to, nil if it does not exist any
// more. It is nearly always one of two, and a comparison costs less than a lookup.
func (p *plan) revisionOf(pod *Pod) *Revision {
	switch {
	case p.updateRevision != nil && p.updateRevision.Object.Name == pod.revision:
		return p.updateRevision
	case p.currentRevision != nil && p.currentRevision.Object.Name == pod.revision:
		return p.currentRevision
	}
	return p.byLabel[pod.revision]
}

// deleteRevisions deletes the oldest revisions that nothing uses, beyond the limit.
func (p *plan) deleteRevisions() {
	limit := max(0, int(ptr.Deref(p.set.Spec.RevisionHistoryLimit, 10)))
	if len(p.Revisions)-1 <= limit {
		return // the template's revision is in use
	}
	used := map[*Revision]bool{p.updateRevision: true, p.currentRevision: true}
	for i := range p.units {
		used[p.units[i].of] = true
	}
	for _, pod := range p.inactive {
		used[p.revisionOf(pod)] = true
	}
	var spare []*Revision
	for _, r := range p.Revisions {
		if !used[r] {
			spare = append(spare, r)
		}
	}
	surplus := len(spare) - limit
	if surplus <= 0 {
		return
	}
	slices.SortFunc(spare, func(a, b *Revision) int {
		return cmp.Or(cmp.Compare(a.Object.Revision, b.Object.Revision), cmp.Compare(a.name(), b.name()))
	})
	for _, r := range spare[:surplus] {
		p.decision.Act(workload.Action{Verb: workload.Delete, Object: r.Object, Exact: true, Reason: workload.Reason{Code: "OldRevision", Text: "beyond revisionHistoryLimit"}})
	}
}
