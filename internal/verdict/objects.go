package verdict

import (
	"hash/maphash"
	"maps"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// Resources maps resources to the keys under which the API server stores their objects.
type Resources interface {
	// Directory returns the prefix of all keys of a resource, with its last slash; "" if the
	// resource is not served.
	Directory(resource schema.GroupResource) string
	// ResourceOf returns the resource that a key belongs to; false if no resource matches.
	ResourceOf(key string) (resource schema.GroupResource, ok bool)
}

// ObjectsOptions describe the run whose objects are followed.
type ObjectsOptions struct {
	Resources Resources
	// Ignored, if set, selects keys of objects that do not belong to the run: State and Contents
	// leave them out.
	Ignored func(key string) bool
	// Private: objects may contain values that must not be recorded (see [history.Confidential]).
	Private bool
	// Decodings is shared by runs that write the same bytes again and again.
	Decodings *Decodings
	// Types, if set, has the Go types of kinds: their tags say which lists have no order.
	Types *runtime.Scheme
	// Now and Elapsed are the run's clock, and Run returns its record up to this moment.
	Now     func() time.Time
	Elapsed func() time.Duration
	Run     func() *history.Run
}

// Objects are the objects that the API contains in a run, as invariants see them: the API's state, not a
// controller's cache. The caller passes each write in order; an object is decoded only when it is read. It is
// not safe for concurrent use.
type Objects struct {
	o        ObjectsOptions
	start    int64             // the revision at which the run started
	initial  map[string]*entry // the initial objects
	revision int64             // of the last write taken
	entries  map[string]*entry
	sorted   map[string][]*unstructured.Unstructured // by resource; emptied at each write
	deleted  map[string]int                          // by key: how often the run deleted the object
	past     past
}

type entry struct {
	revision int64
	value    []byte
	object   *unstructured.Unstructured
}

var _ invariant.View = (*Objects)(nil)

// Write is one write to the store, as it stores it; Value is nil for a delete.
type Write struct {
	Key      string
	Value    []byte
	Revision int64
}

// NewObjects returns the objects of a run that starts at a revision with the initial objects.
func NewObjects(o ObjectsOptions, revision int64, initial []Write) *Objects {
	objects := &Objects{o: o, start: revision, revision: revision, initial: map[string]*entry{}, deleted: map[string]int{}, sorted: map[string][]*unstructured.Unstructured{}}
	for _, w := range initial {
		objects.initial[w.Key] = &entry{revision: w.Revision, value: w.Value}
	}
	objects.entries = maps.Clone(objects.initial)
	return objects
}

// Change is one write together with what it replaced.
type Change struct {
	Key string
	// Before is the revision that the object had before; 0: it did not exist.
	Before, Revision int64

	before, after *entry // nil: the object did not, or does not, exist
}

// Deleted reports whether the write was a delete.
func (c Change) Deleted() bool { return c.after == nil }

// Revision is the revision of the last write taken.
func (o *Objects) Revision() int64 { return o.revision }

// Take applies one write. The caller passes each write once, those of an object in the order of their revisions.
func (o *Objects) Take(w Write) Change {
	c := Change{Key: w.Key, Revision: w.Revision, before: o.entries[w.Key]}
	if c.before != nil {
		c.Before = c.before.revision
	}
	if w.Value != nil {
		c.after = &entry{revision: w.Revision, value: w.Value}
	}
	if w.Value == nil {
		o.deleted[w.Key]++
	}
	resource, _ := o.o.Resources.ResourceOf(w.Key)
	o.past.take(resource, w)
	o.apply(c)
	return c
}

func (o *Objects) apply(c Change) {
	if c.after == nil {
		delete(o.entries, c.Key)
	} else {
		o.entries[c.Key] = c.after
	}
	o.revision = max(o.revision, c.Revision)
	clear(o.sorted)
}

// Now implements invariant.View.
func (o *Objects) Now() time.Time { return o.o.Now() }

// Elapsed implements invariant.View.
func (o *Objects) Elapsed() time.Duration { return o.o.Elapsed() }

// Run implements invariant.View.
func (o *Objects) Run() *history.Run { return o.o.Run() }

// List implements invariant.View.
func (o *Objects) List(resource string) []*unstructured.Unstructured {
	if list, ok := o.sorted[resource]; ok {
		return list
	}
	directory := o.directory(resource)
	var list []*unstructured.Unstructured
	for key, e := range o.entries {
		if directory != "" && strings.HasPrefix(key, directory) {
			if u := o.decode(e); u != nil {
				list = append(list, u)
			}
		}
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.GetNamespace() != b.GetNamespace() {
			return a.GetNamespace() < b.GetNamespace()
		}
		return a.GetName() < b.GetName()
	})
	o.sorted[resource] = list
	return list
}

// Get implements invariant.View.
func (o *Objects) Get(resource, namespace, name string) *unstructured.Unstructured {
	if e := o.entries[o.keyOf(resource, namespace, name)]; e != nil {
		return o.decode(e)
	}
	return nil
}

// keyOf returns the key under which an object of a resource such as "pods" or "jobs.batch" is stored.
func (o *Objects) keyOf(resource, namespace, name string) string {
	key := o.directory(resource)
	if namespace != "" {
		key += namespace + "/"
	}
	return key + name
}

// directory is the key prefix of a resource such as "pods" or "jobs.batch"; "" if the API does not
// serve it.
func (o *Objects) directory(resource string) string {
	return o.o.Resources.Directory(schema.ParseGroupResource(resource))
}

// decode returns the object of the stored bytes; nil if they are not an object of a known kind.
func (o *Objects) decode(e *entry) *unstructured.Unstructured {
	if e.object == nil {
		e.object = o.o.Decodings.get(e.value, e.revision)
	}
	return e.object
}

// StateHash differs for two states that differ in any byte of what the run wrote.
func (o *Objects) StateHash() uint64 {
	var sum uint64
	for key, e := range o.entries {
		if e.revision <= o.start || Bookkeeping(key) {
			continue
		}
		sum += hashWrite(0, key, e.value) // a sum is independent of the map's order
	}
	return sum
}

var hashSeed = maphash.MakeSeed()

// hashWrite returns the hash of a write (value nil: a delete) and all writes before it.
func hashWrite(before uint64, key string, value []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	maphash.WriteComparable(&h, before)
	maphash.WriteComparable(&h, key) // the length, then the bytes
	maphash.WriteComparable(&h, value == nil)
	_, _ = h.Write(value)
	return h.Sum64()
}

// State returns what the run has written, without bookkeeping and without the given paths (see [NewState]).
func (o *Objects) State(without ...Path) State {
	var objects []Object
	definitions := o.List("customresourcedefinitions.apiextensions.k8s.io")
	for key, e := range o.entries {
		if e.revision <= o.start || Bookkeeping(key) || o.o.Ignored != nil && o.o.Ignored(key) {
			continue
		}
		resource, ok := o.o.Resources.ResourceOf(key)
		if u := o.decode(e); ok && u != nil {
			objects = append(objects, Object{Resource: resource.String(), Content: u.Object, Private: o.o.Private, Schema: o.schemaOf(u, definitions)})
		}
	}
	return NewState(objects, without...)
}

// schemaOf returns the schema of an object; nil if neither a Go type nor a definition is known.
func (o *Objects) schemaOf(u *unstructured.Unstructured, definitions []*unstructured.Unstructured) Schema {
	if s := schemaOfType(o.o.Types, u); s != nil {
		return s
	}
	kind := u.GroupVersionKind()
	for _, crd := range definitions {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if group == kind.Group && name == kind.Kind {
			return schemaOfDefinition(crd, kind.Version)
		}
	}
	return nil
}

// Bookkeeping reports whether a key belongs to an object that says nothing about a controller's goal: a
// Lease, an Event or an IP address. A run that writes only these is quiescent.
func Bookkeeping(key string) bool {
	return strings.HasPrefix(key, "/leases/") || strings.HasPrefix(key, "/events/") || strings.HasPrefix(key, "/ipaddresses/")
}
