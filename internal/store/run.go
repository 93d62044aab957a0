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

// RunOptions say what the world of a run begins with and how it differs from the
// process's own.
type RunOptions struct {
	// Seed decides the UIDs of the run's objects.
	Seed uint64
	// Now is the run's clock. What the API server stamps by the process's clock
	// (creation, deletion, managed fields) is written by this one. It must not lie
	// after the process's clock. Nil leaves the stamps alone.
	Now func() time.Time
	// Revision is the revision that the world begins at, whatever the process's
	// world has reached, so that revisions of two runs can be compared. It must
	// leave room for the keys that are taken over.
	Revision int64
	// Keep chooses which keys of the process's world the run begins with; nil
	// takes none.
	Keep func(key string) bool
}

// Fork makes the world of a run out of the process's world as it is now: the keys
// that o.Keep chooses, with new revisions in the order of their names. It is an
// error if the run has a world already or if o.Revision is too small.
func (ws *Worlds) Fork(run string, o RunOptions) (*World, error) {
	if run == "" {
		return nil, errors.New("store: the process's own world cannot be forked onto itself")
	}
	w := newWorld(ws, false)
	w.identity = &identity{seed: o.Seed, now: o.Now, made: map[string]int{}}
	if o.Keep != nil {
		kept, _, _, err := ws.World("").span("", toTheEnd, newestRevision, 0)
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
		return nil, fmt.Errorf("store: run %q cannot begin at revision %d: it takes over %d keys", run, o.Revision, w.rev-1)
	}
	w.rev, w.compacted = o.Revision, o.Revision
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byRun[run] != nil {
		return nil, fmt.Errorf("store: run %q has a world already", run)
	}
	ws.byRun[run] = w
	return w, nil
}

// adopt takes over one key of another world. The bytes are shared, the decoded
// object is not: it carries the revision.
func (w *World) adopt(f keyed) {
	w.rev++
	v := &version{rev: w.rev, created: w.rev, writes: 1, value: f.value}
	w.keys.Set(f.key, &chain{key: f.key, versions: []*version{v}})
}

// identity gives the objects of a run their UIDs and times.
type identity struct {
	seed uint64
	now  func() time.Time
	made map[string]int // how often each key was created; guarded by the world's lock
}

// stampCreated stamps an object that is about to be created at key. What is made of
// it by then may hold the UID that it had before: see uidChange.
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

// uidChange is a new object's UID from the server, and the run's. The server may have
// written its own into the object elsewhere too: a Job's is in its selector.
type uidChange struct{ before, after types.UID }

// in carries the change out in an encoded object. Both UIDs have the same length, so
// that lengths in the encoding stay true.
func (c uidChange) in(data []byte) []byte {
	if c.before == "" || len(c.before) != len(c.after) || !bytes.Contains(data, []byte(c.before)) {
		return data
	}
	return bytes.ReplaceAll(data, []byte(c.before), []byte(c.after))
}

// stamp is for an object that is about to be written at key, over what was there at
// revision rev; 0: nothing was.
func (w *World) stamp(key string, rev int64, obj runtime.Object) uidChange {
	if rev == 0 {
		return w.stampCreated(key, obj)
	}
	w.stampUpdated(obj)
	return uidChange{}
}

// stampUpdated stamps an object that is about to be written over another one.
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

// stampTimes turns times of the process's clock into the run's. A time after the
// run's present can only come from the process's clock; what the server derives
// from times that it read in the object lies in the past already.
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
			// The slice of an unstructured object is a copy, and a typed object's may
			// be shared with the object that it was made from.
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

// keyedUID is a UUID (version 4, RFC 9562) that depends on the run's seed, the key
// and how often the key was created, and on nothing else: what happened to other
// objects does not change it.
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
