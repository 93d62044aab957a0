package verdict

import (
	"hash/maphash"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// past hashes what was written in a run, resource by resource, so that two runs can be compared in the part
// that the answer to a request depends on.
type past struct {
	all   uint64                          // every write, in order
	by    map[schema.GroupResource]uint64 // the writes of one resource and their revisions, in order
	total uint64                          // sum of by, of the resources that answers about others may depend on
}

// readAlone are the built-in resources that the API server reads for no request for another resource. In the
// registry, an eviction reads PodDisruptionBudgets; in the admission of simtest, every request reads its namespace.
var readAlone = map[schema.GroupResource]bool{
	{Resource: "pods"}:                                 true,
	{Resource: "events"}:                               true,
	{Group: "events.k8s.io", Resource: "events"}:       true,
	{Group: "coordination.k8s.io", Resource: "leases"}: true,
	{Group: "batch", Resource: "jobs"}:                 true,
	{Group: "batch", Resource: "cronjobs"}:             true,
	{Group: "apps", Resource: "deployments"}:           true,
	{Group: "apps", Resource: "replicasets"}:           true,
	{Group: "apps", Resource: "statefulsets"}:          true,
	{Group: "apps", Resource: "daemonsets"}:            true,
}

// isReadAlone reports whether no answer about another resource depends on objects of r: of readAlone, and
// custom resources, whose groups are a domain outside of k8s.io.
func isReadAlone(r schema.GroupResource) bool {
	return readAlone[r] || strings.Contains(r.Group, ".") && !strings.HasSuffix(r.Group, ".k8s.io")
}

func (p *past) take(resource schema.GroupResource, w Write) {
	p.all = hashWrite(p.all, w.Key, w.Value)
	if p.by == nil {
		p.by = map[schema.GroupResource]uint64{}
	}
	before := p.by[resource]
	after := hashWrite(before+uint64(w.Revision), w.Key, w.Value)
	p.by[resource] = after
	if !isReadAlone(resource) {
		p.total += after - before
	}
}

// WritesHash differs for two runs whose writes differ in any byte or in their order.
func (o *Objects) WritesHash() uint64 { return o.past.all }

// HashFor differs for two runs that the API server can distinguish when it answers a request for one object:
// in the object itself, in the number of writes so far, or in any write of another resource that the server may
// read, such as the object's namespace. It is the same for two runs in which other objects were written in another
// order, of the object's resource or of one that is read alone, such as pods. A name of "" is that of an object that
// does not exist yet.
func (o *Objects) HashFor(resource, namespace, name string) uint64 {
	written, ok := o.writtenAs(resource)
	if !ok {
		return o.past.all
	}
	var h maphash.Hash
	h.SetSeed(hashSeed)
	others := o.past.total
	if !isReadAlone(written) {
		others -= o.past.by[written]
	}
	maphash.WriteComparable(&h, others)
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

// HashOf differs for two runs that the API server can distinguish when it lists a resource: in the resource's
// writes, their order and revisions, or in the number of all writes.
func (o *Objects) HashOf(resource string) uint64 {
	written, ok := o.writtenAs(resource)
	if !ok {
		return o.past.all
	}
	var h maphash.Hash
	h.SetSeed(hashSeed)
	maphash.WriteComparable(&h, o.past.by[written])
	maphash.WriteComparable(&h, o.revision)
	return h.Sum64()
}

// writtenAs returns the resource that the writes of a resource count for: events of both groups, for example, have
// the same keys. ok is false if the API does not serve the resource.
func (o *Objects) writtenAs(resource string) (schema.GroupResource, bool) {
	return o.o.Resources.ResourceOf(o.directory(resource))
}
