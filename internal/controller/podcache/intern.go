package podcache

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/intern"
)

// Interner makes pods of one template share the memory of their equal parts: of 100,000 pods of a
// hundred ReplicaSets, each pod but the first hundred then holds little more than its name, addresses
// and times. What is read from a pod does not change. Shared parts must not be modified, as nothing in
// a cache may be. The zero value is ready for use.
type Interner struct{ samples intern.Samples }

// Intern drops the managed fields of p and lets p share memory with earlier pods. It also makes p safe for
// concurrent readers (intern.FillTexts).
//
// client-go transforms an object of a list twice. A pod without managed fields counts as interned: it is not modified.
func (s *Interner) Intern(p *corev1.Pod) {
	intern.FillTexts(p) // modifies nothing the second time
	if p.ManagedFields == nil {
		return
	}
	p.ManagedFields = nil
	if p.DeletionTimestamp != nil { // it soon leaves the cache
		return
	}
	name := group(p)
	s.samples.Share(name, p)
	s.samples.Remember(name, p)
}

// group returns the name of the group of pods to which a pod is expected to be similar: those of the same controller, or of the same namespace
// for a pod without one, in the same phase.
func group(p *corev1.Pod) string {
	name := p.Namespace
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		name = string(owner.UID)
	}
	return name + "/" + string(p.Status.Phase)
}
