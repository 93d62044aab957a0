package store

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Create implements storage.Interface. It rejects an object that its codec cannot decode again.
func (s *objects) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if rv, err := s.versioner.ObjectResourceVersion(obj); err == nil && rv != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	changed := s.world(ctx).stampCreated(key, obj)
	data, err := s.encode(obj)
	if err != nil {
		return err
	}
	data = changed.in(data)
	v, err := s.newVersion(ctx, key, nil, data)
	if err != nil {
		return err
	}
	if _, _, ok := s.world(ctx).write(key, 0, v, seconds(ttl)); !ok {
		return storage.NewKeyExistsError(key, 0)
	}
	s.worlds.remember(v)
	if out == nil {
		return nil
	}
	return s.answer(ctx, key, v, data, out)
}

func seconds(ttl uint64) time.Duration { return time.Duration(ttl) * time.Second }

// answer sets out to what was just written; the caller owns it. data is the version's value before
// the transformer, which is not called again.
func (s *objects) answer(ctx context.Context, key string, v *version, data []byte, out runtime.Object) error {
	if s.transformer == nil {
		return s.read(ctx, key, v, out, true)
	}
	return s.decodeInto(data, v.rev, out)
}

func (s *objects) decodeInto(data []byte, rev int64, out runtime.Object) error {
	if _, _, err := s.codec.Decode(data, nil, out); err != nil {
		return err
	}
	setRevision(out, rev)
	return nil
}

// state is what an update or a delete starts from.
type state struct {
	obj     runtime.Object // the caller may modify it
	rev     int64          // 0: the key does not exist
	data    []byte         // before the transformer
	stale   bool           // the transformer requires the value to be written again
	version *version       // nil if absent
}

// reader reads the current state for one call of an update or a delete.
type reader struct {
	objects        *objects
	key            string
	like           runtime.Object // an object of the type that the caller works with
	ignoreNotFound bool
	unread         bool // whether the object must not be decoded
}

// of returns the state of a version; nil means that the key does not exist.
func (r reader) of(ctx context.Context, v *version) (*state, error) {
	if v == nil {
		if !r.ignoreNotFound {
			return nil, storage.NewKeyNotFoundError(r.key, 0)
		}
		obj := newLike(r.like)
		return &state{obj: obj}, runtime.SetZeroValue(obj)
	}
	if r.unread {
		return &state{rev: v.rev, stale: true, version: v}, nil
	}
	data, stale, err := r.objects.plain(ctx, r.key, v)
	if err != nil {
		return nil, err
	}
	st := &state{obj: newLike(r.like), rev: v.rev, data: data, stale: stale, version: v}
	return st, r.objects.answer(ctx, r.key, v, data, st.obj)
}

// newLike returns an empty object of the type of obj, and of its kind if it is unstructured.
func newLike(obj runtime.Object) runtime.Object {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.NewEmptyInstance()
	}
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}

// start returns the state to try first. The watch cache suggests its object, which saves a copy if it is at the key's revision. Otherwise start
// ignores it, unlike etcd3's store, in which a read is a request: here a read costs less than an update or a delete that conflicts and is tried
// again. With a transformer, only a read shows whether the value must be written again.
func (r reader) start(ctx context.Context, suggestion runtime.Object) (*state, error) {
	v, _ := r.objects.world(ctx).live(r.key)
	if suggestion != nil && v != nil && r.objects.transformer == nil && !r.unread {
		rv, err := r.objects.versioner.ObjectResourceVersion(suggestion)
		if err != nil {
			return nil, fmt.Errorf("store: suggested object has no resourceVersion: %w", err)
		}
		if int64(rv) == v.rev {
			return &state{obj: suggestion, rev: v.rev, data: v.value, version: v}, nil
		}
	}
	return r.of(ctx, v)
}

// GuaranteedUpdate implements storage.Interface. tryUpdate receives its own object. As in etcd3, a
// nil TTL ends an object's time to live rather than keeping it, and an update that changes no byte
// writes nothing.
func (s *objects) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if _, err := conversion.EnforcePtr(destination); err != nil {
		return fmt.Errorf("store: output object is no pointer: %w", err)
	}
	u := update{
		reader:        reader{objects: s, key: key, like: destination, ignoreNotFound: ignoreNotFound},
		preconditions: preconditions,
		try:           tryUpdate,
		out:           destination,
	}
	st, err := u.start(ctx, cachedExistingObject)
	for err == nil {
		if err = ctx.Err(); err != nil {
			return err
		}
		if st, err = u.once(ctx, st); st == nil {
			return err
		}
	}
	return err
}

// update is one call of GuaranteedUpdate.
type update struct {
	reader
	preconditions *storage.Preconditions
	try           storage.UpdateFunc
	out           runtime.Object
}

// once tries the update on st. It returns the state to try next, or nil if the call is done.
func (u *update) once(ctx context.Context, st *state) (*state, error) {
	if err := u.preconditions.Check(u.key, st.obj); err != nil {
		return nil, err
	}
	ret, ttl, err := u.try(st.obj, storage.ResponseMeta{ResourceVersion: uint64(st.rev)})
	if err != nil {
		return nil, err
	}
	changed := u.objects.world(ctx).stamp(u.key, st.rev, ret)
	data, err := u.objects.encode(ret)
	if err != nil {
		return nil, err
	}
	data = changed.in(data)
	if !st.stale && bytes.Equal(data, st.data) {
		return nil, u.objects.answer(ctx, u.key, st.version, st.data, u.out)
	}
	return u.write(ctx, st, data, ttl)
}

// write commits data over st. After a conflict it returns the state that was written instead.
func (u *update) write(ctx context.Context, st *state, data []byte, ttl *uint64) (*state, error) {
	v, err := u.objects.newVersion(ctx, u.key, st.version, data)
	if err != nil {
		return nil, err
	}
	var life time.Duration
	if ttl != nil {
		life = seconds(*ttl)
	}
	before, _, ok := u.objects.world(ctx).write(u.key, st.rev, v, life)
	if !ok {
		return u.of(ctx, before)
	}
	u.objects.worlds.remember(v)
	return nil, u.objects.answer(ctx, u.key, v, data, u.out)
}

// Delete implements storage.Interface. It sets out to the deleted object, at the revision of its
// deletion. opts.IgnoreStoreReadError applies only if the server allows unsafe deletion; out is not
// set then.
func (s *objects) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validateDeletion storage.ValidateObjectFunc, cachedExistingObject runtime.Object, opts storage.DeleteOptions,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if _, err := conversion.EnforcePtr(out); err != nil {
		return fmt.Errorf("store: output object is no pointer: %w", err)
	}
	d := deletion{
		reader:        reader{objects: s, key: key, like: out, unread: opts.IgnoreStoreReadError && unsafeDeletion()},
		preconditions: preconditions,
		validate:      validateDeletion,
		out:           out,
	}
	st, err := d.start(ctx, cachedExistingObject)
	for err == nil {
		if err = ctx.Err(); err != nil {
			return err
		}
		if st, err = d.once(ctx, st); st == nil {
			return err
		}
	}
	return err
}

// deletion is one call of Delete.
type deletion struct {
	reader
	preconditions *storage.Preconditions
	validate      storage.ValidateObjectFunc
	out           runtime.Object
}

// once tries the delete on st. It returns the state to try next, or nil if the call is done.
func (d *deletion) once(ctx context.Context, st *state) (*state, error) {
	err := d.preconditions.Check(d.key, st.obj)
	if err == nil {
		err = d.validate(ctx, st.obj)
	}
	if err != nil {
		return nil, err
	}
	before, rev, ok := d.objects.world(ctx).write(d.key, st.rev, nil, 0)
	if !ok {
		return d.of(ctx, before)
	}
	if d.unread {
		return nil, nil
	}
	if d.objects.transformer != nil {
		return nil, d.objects.decodeInto(st.data, rev, d.out)
	}
	if err := d.objects.read(ctx, d.key, before, d.out, true); err != nil {
		return nil, err
	}
	setRevision(d.out, rev)
	return nil, nil
}
