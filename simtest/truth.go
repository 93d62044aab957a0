package simtest

import (
	"hash/maphash"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/store"
)

// truth is the world's objects as invariants see them. It follows the store by its
// changes and decodes an object when somebody asks for it.
type truth struct {
	world   *World
	store   *store.World
	read    int64 // revision up to which it has followed
	entries map[string]*entry
	sorted  map[string][]*unstructured.Unstructured // by resource; dropped at a change
	past    uint64                                  // of all that was written, in order
}

type entry struct {
	revision int64
	value    []byte
	object   *unstructured.Unstructured
}

var _ invariant.View = (*truth)(nil)

func newTruth(w *World, s *store.World) (*truth, error) {
	t := &truth{world: w, store: s, read: s.Revision(), entries: map[string]*entry{}, sorted: map[string][]*unstructured.Unstructured{}}
	kvs, _, _, err := s.RawRange("", "\x00", 0, 0)
	if err != nil {
		return nil, err
	}
	for _, kv := range kvs {
		t.entries[kv.Key] = &entry{revision: kv.ModRevision, value: kv.Value}
	}
	return t, nil
}

// change is one write as the schedule sees it.
type change struct {
	key              string
	before, revision int64
	was, is          *entry // nil: there was, or is, nothing
}

// follow takes in what was written since the last time.
func (t *truth) follow() ([]change, error) {
	writes, err := t.store.Changes(t.read)
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	changes := make([]change, 0, len(writes))
	for _, c := range writes {
		was := t.entries[c.Key]
		ch := change{key: c.Key, revision: c.Revision, was: was}
		if was != nil {
			ch.before = was.revision
		}
		if c.Value == nil {
			delete(t.entries, c.Key)
		} else {
			ch.is = &entry{revision: c.Revision, value: c.Value}
			t.entries[c.Key] = ch.is
		}
		changes = append(changes, ch)
		t.read = c.Revision
		t.past = hashWrite(t.past, c.Key, c.Value)
	}
	clear(t.sorted)
	return changes, nil
}

// Now implements invariant.View.
func (t *truth) Now() time.Time { return time.Now() }

// Elapsed implements invariant.View.
func (t *truth) Elapsed() time.Duration { return t.world.elapsed() }

// Run implements invariant.View.
func (t *truth) Run() *history.Run { return t.world.record }

// List implements invariant.View.
func (t *truth) List(resource string) []*unstructured.Unstructured {
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
func (t *truth) Get(resource, namespace, name string) *unstructured.Unstructured {
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
func (t *truth) directory(resource string) string {
	return t.world.server.worlds.Directory(schema.ParseGroupResource(resource))
}

// decode reads the stored bytes; nil if they are of no known kind (bookkeeping of
// the server that is no object).
func (t *truth) decode(e *entry) *unstructured.Unstructured {
	if e.object == nil {
		e.object = t.world.server.decoded.get(e.value, e.revision)
	}
	return e.object
}

// fingerprint tells two states apart that differ in any byte of what a run wrote.
func (t *truth) fingerprint() uint64 {
	var sum uint64
	for key, e := range t.entries {
		if e.revision <= revision || bookkeepingKey(key) {
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

// decodings remembers what stored bytes mean. Runs of one test write the same bytes
// over and over; the objects are shared and nobody changes them.
type decodings struct {
	mu    sync.Mutex
	known map[decodingKey]*unstructured.Unstructured
}

type decodingKey struct {
	value    string
	revision int64
}

// maxDecodings bounds the memory: beyond it all is forgotten.
const maxDecodings = 4096

func (d *decodings) get(value []byte, revision int64) *unstructured.Unstructured {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u, ok := d.known[decodingKey{string(value), revision}]; ok {
		return u
	}
	var u *unstructured.Unstructured
	if content, err := contentOf(value); err == nil {
		u = &unstructured.Unstructured{Object: content}
		u.SetResourceVersion(revisionText(revision))
	}
	if d.known == nil || len(d.known) >= maxDecodings {
		d.known = map[decodingKey]*unstructured.Unstructured{}
	}
	d.known[decodingKey{string(value), revision}] = u
	return u
}

// contentOf decodes what the store holds: custom resources are JSON, built-in kinds
// are protobuf of their storage version.
func contentOf(value []byte) (map[string]any, error) {
	if len(value) > 0 && value[0] == '{' {
		u := &unstructured.Unstructured{}
		err := u.UnmarshalJSON(value)
		return u.Object, err
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err == nil && len(kinds) > 0 {
		content["apiVersion"], content["kind"] = kinds[0].GroupVersion().String(), kinds[0].Kind
	}
	return content, nil
}
