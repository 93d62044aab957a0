package podcache

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/intern"
)

// Interner makes pods of one template share the memory of their equal parts: of 100,000 pods of a
// hundred ReplicaSets, each pod but the first hundred then holds little more than its name, addresses
// and times. What is read from a pod does not change. Shared parts must not be modified, as nothing in
// a cache may be. The zero value is ready for use.
type Interner struct{ samples intern.Samples }

// Intern drops the managed fields of p and lets p share memory with earlier pods. It also makes p safe for
// concurrent readers: a quantity caches its text on the first call of String, so Intern calls Size, which
// formats all of them, before a reader gets p.
//
// client-go transforms an object of a list twice, and the first time another cache may have got it. So a pod without managed fields counts as
// interned: it is not modified.
func (s *Interner) Intern(p *corev1.Pod) {
	_ = p.Size() // modifies nothing the second time
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

// maxRecent is how many pods Versions keeps for caches that receive the same versions a little later.
const maxRecent = 4096

// Versions gives several caches of one process the same object for each version of a pod, and interns the pods. All of them must watch
// pods without a selector: when a pod no longer matches a selector, its watch sends an older state with the revision of the change.
// The zero value is ready for use.
type Versions struct {
	interner Interner

	mu     sync.Mutex
	recent map[types.UID]*corev1.Pod
	uids   [maxRecent]types.UID // of recent, in a ring
	next   int
}

// Transform implements cache.TransformFunc: it returns the object of another cache for the same version of a pod, if that
// cache received it not long ago. Other objects are returned unchanged.
func (v *Versions) Transform(obj any) (any, error) {
	if p, ok := obj.(*corev1.Pod); ok {
		return v.get(p), nil
	}
	return obj, nil
}

func (v *Versions) get(p *corev1.Pod) *corev1.Pod {
	if known := v.known(p); known != nil {
		return known
	}
	v.interner.Intern(p)
	v.keep(p)
	return p
}

// known returns the recent object for the version of p, nil if there is none.
func (v *Versions) known(p *corev1.Pod) *corev1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	if k := v.recent[p.UID]; k != nil && k.ResourceVersion == p.ResourceVersion {
		return k
	}
	return nil
}

// keep adds a pod to the recent ones. A new one replaces the oldest.
func (v *Versions) keep(p *corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.recent == nil {
		v.recent = map[types.UID]*corev1.Pod{}
	}
	if v.recent[p.UID] == nil {
		delete(v.recent, v.uids[v.next])
		v.uids[v.next] = p.UID
		v.next = (v.next + 1) % maxRecent
	}
	v.recent[p.UID] = p
}
