package store

import "bytes"

// KV is a key and its value as etcd returns them.
type KV struct {
	Key   string
	Value []byte // shared; must not be modified

	ModRevision    int64 // the revision of its last write
	CreateRevision int64 // the revision of the write that created it
	Version        int64 // how often it was written since it was created
}

func kvOf(key string, v *version) KV {
	return KV{Key: key, Value: v.value, ModRevision: v.rev, CreateRevision: v.created, Version: v.writes}
}

// RawGet returns the current value of a key. The value is shared and must not be modified.
func (w *World) RawGet(key string) (value []byte, modRevision, createRevision, version int64, ok bool) {
	v, _ := w.live(key)
	if v == nil {
		return nil, 0, 0, 0, false
	}
	return v.value, v.rev, v.created, v.writes, true
}

// RawRange reads like etcd's Range: the keys in [key, end), or one key if end is empty, or all from
// key on if end is "\x00"; at most limit of them (0: all), as they were at a revision (0: now).
// count is the number of keys in the range, whatever the limit; header is the revision of the
// world. The errors are [ErrCompacted] and [ErrFutureRevision].
func (w *World) RawRange(key, end string, limit, revision int64) (kvs []KV, count, header int64, err error) {
	if revision <= 0 {
		revision = newestRevision
	}
	found, count, header, err := w.span(key, end, revision, int(max(limit, 0)), true)
	if err != nil {
		return nil, 0, header, err
	}
	kvs = make([]KV, 0, len(found))
	for _, f := range found {
		kvs = append(kvs, kvOf(f.key, f.version))
	}
	return kvs, count, header, nil
}

// RawPut writes a value if the key's last write was at ifModRevision; 0 means that the key must not
// exist, -1 accepts any state. rev is the revision of the write, or that of the world if ok is
// false.
func (w *World) RawPut(key string, value []byte, ifModRevision int64) (rev int64, ok bool) {
	_, rev, ok = w.write(key, ifModRevision, &version{value: bytes.Clone(value)}, 0)
	return rev, ok
}

// RawDelete deletes a key if its last write was at ifModRevision; -1 accepts any revision. If the
// revision differs or the key does not exist, it changes nothing and ok is false. rev is as for
// [World.RawPut].
func (w *World) RawDelete(key string, ifModRevision int64) (rev int64, ok bool) {
	_, rev, ok = w.write(key, ifModRevision, nil, 0)
	return rev, ok
}
