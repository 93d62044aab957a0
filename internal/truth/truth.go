package truth

import (
	"hash/maphash"
	"maps"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// Options say whose truth it is.
type Options struct {
	// Source is the run's world.
	Source Source
	// Apart tells keys of objects that are not the run's, for State and Contents; nil: there are none.
	Apart func(key string) bool
	// Private says that objects may have what must not be written down (see [history.Confidential]).
	Private bool
	// Decodings are shared by runs that write the same bytes over and over.
	Decodings *Decodings
	// Now and Elapsed are the run's clock, and Run is its record up to this moment.
	Now     func() time.Time
	Elapsed func() time.Duration
	Run     func() *history.Run
}

// Truth is the world's objects. It is for one goroutine at a time.
type Truth struct {
	o       Options
	base    int64             // the revision that the run began at
	first   map[string]*entry // what the run began with
	read    int64             // revision up to which it has followed
	cursor  int64             // the same, as the source counts
	entries map[string]*entry
	sorted  map[string][]*unstructured.Unstructured // by resource; dropped at a change
	past    uint64                                  // of all that was written, in order
}

type entry struct {
	revision int64
	value    []byte
	object   *unstructured.Unstructured
}

var _ invariant.View = (*Truth)(nil)

// New begins with what the world holds now.
func New(o Options) (*Truth, error) {
	kvs, revision, cursor, err := o.Source.Held()
	if err != nil {
		return nil, err
	}
	t := &Truth{o: o, base: revision, read: revision, cursor: cursor, entries: map[string]*entry{}, sorted: map[string][]*unstructured.Unstructured{}}
	for _, kv := range kvs {
		t.entries[kv.Key] = &entry{revision: kv.ModRevision, value: kv.Value}
	}
	t.first = maps.Clone(t.entries)
	return t, nil
}

// Change is one write.
type Change struct {
	Key string
	// Before is the revision that was there; 0: nothing was.
	Before, Revision int64

	was, is *entry // nil: there was, or is, nothing
}

// Gone tells whether the write was a delete.
func (c Change) Gone() bool { return c.is == nil }

// Read is the revision up to which it has followed.
func (t *Truth) Read() int64 { return t.read }

// Past tells two histories apart that differ in any byte of what was written, or in its order.
func (t *Truth) Past() uint64 { return t.past }

// Follow takes in what was written since the last time.
func (t *Truth) Follow() (changes []Change, err error) {
	writes, next, err := t.o.Source.Changes(t.cursor)
	t.cursor = next
	for _, w := range writes {
		was := t.entries[w.Key]
		c := Change{Key: w.Key, Revision: w.Revision, was: was}
		if was != nil {
			c.Before = was.revision
		}
		if w.Value != nil {
			c.is = &entry{revision: w.Revision, value: w.Value}
		}
		t.past = hashWrite(t.past, w.Key, w.Value)
		t.take(c)
		changes = append(changes, c)
	}
	return changes, err
}

// take has the world be as a write has left it.
func (t *Truth) take(c Change) {
	if c.is == nil {
		delete(t.entries, c.Key)
	} else {
		t.entries[c.Key] = c.is
	}
	t.read = c.Revision
	clear(t.sorted)
}

// Now implements invariant.View.
func (t *Truth) Now() time.Time { return t.o.Now() }

// Elapsed implements invariant.View.
func (t *Truth) Elapsed() time.Duration { return t.o.Elapsed() }

// Run implements invariant.View.
func (t *Truth) Run() *history.Run { return t.o.Run() }

// List implements invariant.View.
func (t *Truth) List(resource string) []*unstructured.Unstructured {
	if list, ok := t.sorted[resource]; ok {
		return list
	}
	directory := t.directory(resource)
	var list []*unstructured.Unstructured
	for key, e := range t.entries {
		if directory != "" && strings.HasPrefix(key, directory) {
			if o := t.decode(e); o != nil {
				list = append(list, o)
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
	t.sorted[resource] = list
	return list
}

// Get implements invariant.View.
func (t *Truth) Get(resource, namespace, name string) *unstructured.Unstructured {
	key := t.directory(resource)
	if namespace != "" {
		key += namespace + "/"
	}
	if e := t.entries[key+name]; e != nil {
		return t.decode(e)
	}
	return nil
}

// directory is where a resource is kept, as "pods" or "jobs.batch"; "" if the API does
// not serve it.
func (t *Truth) directory(resource string) string {
	return t.o.Source.Directory(schema.ParseGroupResource(resource))
}

// decode reads the stored bytes; nil if they are of no known kind (bookkeeping of
// the server that is no object).
func (t *Truth) decode(e *entry) *unstructured.Unstructured {
	if e.object == nil {
		e.object = t.o.Decodings.get(e.value, e.revision)
	}
	return e.object
}

// Fingerprint tells two states apart that differ in any byte of what a run wrote.
func (t *Truth) Fingerprint() uint64 {
	var sum uint64
	for key, e := range t.entries {
		if e.revision <= t.base || Bookkeeping(key) {
			continue
		}
		// Addition does not mind the order of the map.
		sum += hashWrite(0, key, e.value)
	}
	return sum
}

var hashSeed = maphash.MakeSeed()

// hashWrite is the hash of what key holds now (nil: nothing) after all that was
// written before.
func hashWrite(before uint64, key string, value []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	maphash.WriteComparable(&h, before)
	maphash.WriteComparable(&h, key) // with its length
	maphash.WriteComparable(&h, value == nil)
	_, _ = h.Write(value)
	return h.Sum64()
}

// State is what the world holds, but for what it began with, for bookkeeping, and for paths
// that do not matter (sim.NewState).
func (t *Truth) State(without ...string) sim.State {
	var objects []sim.Object
	for key, e := range t.entries {
		if e.revision <= t.base || Bookkeeping(key) || t.o.Apart != nil && t.o.Apart(key) {
			continue
		}
		resource, ok := t.o.Source.ResourceOf(key)
		if o := t.decode(e); ok && o != nil {
			objects = append(objects, sim.Object{Resource: resource.String(), Content: o.Object, Private: t.o.Private})
		}
	}
	return sim.NewState(objects, without...)
}

// Bookkeeping tells the keys of objects whose writes say nothing about what a controller wants.
func Bookkeeping(key string) bool {
	return strings.HasPrefix(key, "/leases/") || strings.HasPrefix(key, "/events/") || strings.HasPrefix(key, "/ipaddresses/")
}
