package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// RunOptions configure the initial contents of a run's world and its differences from the process's
// world.
type RunOptions struct {
	// Seed determines the UIDs of the run's objects.
	Seed uint64
	// Now is the run's clock. It replaces the times that the API server sets by the process's clock
	// (creation, deletion, managed fields). It must not be ahead of the process's clock. If Now is
	// nil, the times are not replaced.
	Now func() time.Time
	// Revision is the initial revision of the world, whatever the revision of the process's world,
	// so that the revisions of two runs can be compared. It must be greater than the number
	// of copied keys.
	Revision int64
	// Keep selects the keys that are copied from the process's world; nil copies none.
	Keep func(key string) bool
}

// Fork creates the world of a run from the current process's world: it copies the keys that o.Keep
// selects, with new revisions in the order of their names. It returns an error if the run already
// has a world or if o.Revision is too small.
func (ws *Worlds) Fork(run string, o RunOptions) (*World, error) {
	if run == "" {
		return nil, errors.New("store: fork the process's world: the run has no name")
	}
	w := newWorld(ws, false)
	w.identity = &identity{seed: o.Seed, now: o.Now, made: map[string]int{}}
	if o.Keep != nil {
		kept, _, _, err := ws.World("").span("", toTheEnd, newestRevision, 0, true)
		if err != nil {
			return nil, err
		}
		for _, f := range kept {
			if o.Keep(f.key) {
				w.adopt(f)
			}
		}
	}
	if o.Revision < w.rev {
		return nil, fmt.Errorf("store: fork run %q at revision %d: want a revision above %d, the number of copied keys", run, o.Revision, w.rev-1)
	}
	w.rev, w.compacted = o.Revision, o.Revision
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byRun[run] != nil {
		return nil, fmt.Errorf("store: fork run %q: the run already has a world", run)
	}
	ws.byRun[run] = w
	return w, nil
}

// adopt copies one key of another world. The bytes are shared; the decoded object is not, because
// it contains the revision.
func (w *World) adopt(f keyed) {
	w.rev++
	v := &version{rev: w.rev, created: w.rev, writes: 1, value: f.value}
	w.keys.Set(f.key, &chain{key: f.key, versions: []*version{v}})
}

// identity sets the UIDs and times of a run's objects.
type identity struct {
	seed uint64
	now  func() time.Time
	made map[string]int // how often each key was created; guarded by World.mu
}

// stampCreated sets the run's UID and times on an object that is about to be created at key. The
// encoded object may still contain the previous UID: see uidChange.
func (w *World) stampCreated(key string, obj runtime.Object) (changed uidChange) {
	if w.identity == nil {
		return changed
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return changed
	}
	if m.GetUID() != "" {
		changed.before = m.GetUID()
		w.mu.RLock()
		n := w.identity.made[key] + 1
		w.mu.RUnlock()
		m.SetUID(keyedUID(w.identity.seed, key, n))
		changed.after = m.GetUID()
	}
	w.stampTimes(m)
	w.stampStatus(obj)
	return changed
}

// uidChange is a new object's UID from the server, and the run's UID that replaces it. The server
// may have copied its UID to other fields of the object: a Job's selector contains it.
type uidChange struct{ before, after types.UID }

// in replaces the UID in an encoded object. Both UIDs have the same length, so that lengths in the
// encoding stay correct.
func (c uidChange) in(data []byte) []byte {
	if c.before == "" || len(c.before) != len(c.after) || !bytes.Contains(data, []byte(c.before)) {
		return data
	}
	return bytes.ReplaceAll(data, []byte(c.before), []byte(c.after))
}

// stamp prepares an object that is about to be written at key, over the version of revision rev; 0:
// the key does not exist.
func (w *World) stamp(key string, rev int64, obj runtime.Object) uidChange {
	if rev == 0 {
		return w.stampCreated(key, obj)
	}
	w.stampUpdated(obj)
	return uidChange{}
}

// stampUpdated sets the run's times on an object that is about to replace another one.
func (w *World) stampUpdated(obj runtime.Object) {
	if w.identity == nil {
		return
	}
	if m, err := meta.Accessor(obj); err == nil {
		w.stampTimes(m)
		w.stampStatus(obj)
	}
}

func (w *World) stampStatus(obj runtime.Object) {
	if w.identity.now != nil {
		stampStatus(obj, time.Now(), w.identity.now().Truncate(time.Second))
	}
}

// stampTimes replaces times of the process's clock by the run's time. A time after the run's
// current time can only come from the process's clock; times that the server derives from the
// object's times are in the past.
func (w *World) stampTimes(m metav1.Object) {
	if w.identity.now == nil {
		return
	}
	now := metav1.NewTime(w.identity.now().Truncate(time.Second))
	if created := m.GetCreationTimestamp(); created.After(now.Time) {
		m.SetCreationTimestamp(now)
	}
	if deleted := m.GetDeletionTimestamp(); deleted != nil {
		due := now
		if grace := m.GetDeletionGracePeriodSeconds(); grace != nil {
			due = metav1.NewTime(now.Add(time.Duration(*grace) * time.Second))
		}
		if deleted.After(due.Time) {
			m.SetDeletionTimestamp(&due)
		}
	}
	fields := m.GetManagedFields()
	for i := range fields {
		if fields[i].Time != nil && fields[i].Time.After(now.Time) {
			// The slice of an unstructured object is a copy; that of a typed object may be shared
			// with the previous object.
			fields = append([]metav1.ManagedFieldsEntry(nil), fields...)
			for j := i; j < len(fields); j++ {
				if fields[j].Time != nil && fields[j].Time.After(now.Time) {
					fields[j].Time = &now
				}
			}
			m.SetManagedFields(fields)
			return
		}
	}
}

// keyedUID returns a UUID (version 4, RFC 9562) that depends only on the run's seed, the key and
// how often the key was created: writes of other objects do not change it.
func keyedUID(seed uint64, key string, n int) types.UID {
	h := fnv.New128a()
	h.Write([]byte(strconv.FormatUint(seed, 16)))
	h.Write([]byte(key))
	h.Write([]byte{0})
	h.Write([]byte(strconv.Itoa(n)))
	var b [16]byte
	h.Sum(b[:0])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16]))
}
