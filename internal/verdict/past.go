package verdict

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// past hashes what was written in a run, resource by resource, so that two runs can be compared in the part
// that the answer to a request depends on.
type past struct {
	all   uint64                          // every write, in order
	by    map[schema.GroupResource]uint64 // the writes of one resource and their revisions, in order
	total uint64                          // sum of by
}

func (p *past) take(resource schema.GroupResource, w Write) {
	p.all = hashWrite(p.all, w.Key, w.Value)
	if p.by == nil {
		p.by = map[schema.GroupResource]uint64{}
	}
	before := p.by[resource]
	after := hashWrite(before+uint64(w.Revision), w.Key, w.Value)
	p.by[resource] = after
	p.total += after - before
}

// WritesHash differs for two runs whose writes differ in any byte or in their order.
func (o *Objects) WritesHash() uint64 { return o.past.all }

// HashFor differs for two runs that the API server can distinguish when it answers a request for one object:
// in the object itself, in the number of writes so far, or in any write of another resource, such as the
// object's namespace. It is the same for two runs in which other objects of the object's resource were written in
// another order. A name of "" is that of an object that does not exist yet.
func (o *Objects) HashFor(resource, namespace, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	maphash.WriteComparable(&h, o.past.total-o.past.by[schema.ParseGroupResource(resource)])
	maphash.WriteComparable(&h, o.revision)
	if name == "" {
		return h.Sum64()
	}
	key := o.keyOf(resource, namespace, name)
	maphash.WriteComparable(&h, o.deleted[key]) // the UID depends on it
	if e := o.entries[key]; e != nil {
		maphash.WriteComparable(&h, e.revision)
		_, _ = h.Write(e.value)
	}
	return h.Sum64()
}
