package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rehearse-k8s/rehearse/internal/intern"
)

// encode prepares an object for storage (which clears its resourceVersion) and returns its bytes
// before the transformer.
func (s *objects) encode(obj runtime.Object) ([]byte, error) {
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return nil, fmt.Errorf("store: cannot prepare object for storage: %w", err)
	}
	return runtime.Encode(s.codec, obj)
}

// newVersion creates the version for data, which replaces an earlier version; nil if the key is new. Without a transformer it decodes the
// object here, before the write, so that bytes that cannot be decoded are rejected and no reader has to decode them
// again.
func (s *objects) newVersion(ctx context.Context, key string, earlier *version, data []byte) (*version, error) {
	if s.transformer != nil {
		stored, err := s.transformer.TransformToStorage(ctx, data, value.DefaultContext(key))
		if err != nil {
			return nil, storage.NewInternalError(err)
		}
		return &version{value: stored}, nil
	}
	// Clip the encoder's buffer: the version may be kept for long.
	v := &version{value: append(make([]byte, 0, len(data)), data...)}
	obj, err := s.decodeAfter(earlier, v.value)
	if err != nil {
		return nil, err
	}
	v.decoded.Store(&decoded{by: s, obj: obj})
	return v, nil
}

// plain returns the bytes of a version before the transformer, and whether the transformer requires
// them to be written again.
func (s *objects) plain(ctx context.Context, key string, v *version) (data []byte, stale bool, err error) {
	if s.transformer == nil {
		return v.value, false, nil
	}
	data, stale, err = s.transformer.TransformFromStorage(ctx, v.value, value.DefaultContext(key))
	if err != nil {
		return nil, false, storage.NewInternalError(err)
	}
	return data, stale, nil
}

// decodeNew decodes an object that readers will share.
func (s *objects) decodeNew(data []byte) (runtime.Object, error) {
	var obj runtime.Object
	var err error
	if s.newFunc == nil {
		obj, err = runtime.Decode(s.codec, data)
	} else {
		obj, _, err = s.codec.Decode(data, nil, s.newFunc())
	}
	if err != nil {
		return nil, err
	}
	intern.FillTexts(obj)
	s.worlds.share(obj)
	return obj, nil
}

// setRevision sets the resourceVersion of an object. An object without that field is returned
// unchanged, as in etcd3's store.
func setRevision(obj runtime.Object, rev int64) {
	_ = storage.APIObjectVersioner{}.UpdateObject(obj, uint64(rev))
}

// stamp sets the resourceVersion of the decoded object once the revision is known. No other
// goroutine uses the object yet.
func (v *version) stamp() {
	if d := v.decoded.Load(); d != nil {
		setRevision(d.obj, v.rev)
	}
}

// object returns the object that a version decodes to in this Storage. If shared is true, all
// readers share the object and must not modify it.
func (s *objects) object(ctx context.Context, key string, v *version) (obj runtime.Object, shared bool, err error) {
	known := v.decoded.Load()
	if known != nil && known.by == s {
		return known.obj, true, nil
	}
	data, _, err := s.plain(ctx, key, v)
	if err != nil {
		return nil, false, err
	}
	if obj, err = s.decodeNew(data); err != nil {
		return nil, false, err
	}
	setRevision(obj, v.rev)
	if s.transformer != nil {
		return obj, false, nil
	}
	// The version was written raw or by another Storage: cache the object as this one decodes it.
	obj = s.remember(&v.decoded, known, obj)
	s.worlds.remember(v)
	return obj, true, nil
}

// remember replaces the cached object by obj and returns the object that this Storage must return
// from now on: obj, or what a concurrent reader has cached.
func (s *objects) remember(place *atomic.Pointer[decoded], known *decoded, obj runtime.Object) runtime.Object {
	if !place.CompareAndSwap(known, &decoded{by: s, obj: obj}) {
		if winner := place.Load(); winner != nil && winner.by == s {
			return winner.obj
		}
	}
	return obj
}

// read sets out to the object of a version. With own, the caller may modify all of out; without,
// out shares its data with other readers.
func (s *objects) read(ctx context.Context, key string, v *version, out runtime.Object, own bool) error {
	to, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("store: output object is no pointer: %w", err)
	}
	if s.transformer == nil && s.readable(out) {
		obj, _, err := s.object(ctx, key, v)
		if err != nil {
			return err
		}
		if sameType(obj, out) {
			if own {
				obj = obj.DeepCopyObject()
			} else {
				obj = copyMaps(obj)
			}
			to.Set(reflect.ValueOf(obj).Elem())
			return nil
		}
	}
	data, _, err := s.plain(ctx, key, v)
	if err != nil {
		return err
	}
	if _, _, err := s.codec.Decode(data, nil, out); err != nil {
		return err
	}
	setRevision(out, v.rev)
	return nil
}

// readable reports whether out may have the type of the shared object. It avoids decoding an object
// that would then be decoded a second time.
func (s *objects) readable(out runtime.Object) bool {
	return s.newFunc == nil || reflect.TypeOf(out) == s.goType
}

// sameType reports whether out can take the shared object unchanged. The contents of an
// unstructured object determine the version that it asks for; only if the shared object has that
// version would the codec change nothing.
func sameType(shared, out runtime.Object) bool {
	if reflect.TypeOf(shared) != reflect.TypeOf(out) {
		return false
	}
	if _, ok := out.(runtime.Unstructured); !ok {
		return true
	}
	want := out.GetObjectKind().GroupVersionKind().GroupVersion()
	return !want.Empty() && want == shared.GetObjectKind().GroupVersionKind().GroupVersion()
}

// shallowCopy copies the top level of an object: the fields of a struct, and so its whole metadata
// down to the first pointer; for an unstructured object the maps that correspond to them. Setting
// the kind, the resourceVersion, a timestamp or a new list of finalizers on the copy does not
// change the original.
func shallowCopy(obj runtime.Object) runtime.Object {
	if isMap(obj) {
		return copyMaps(obj)
	}
	from := reflect.ValueOf(obj)
	if from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct {
		return obj.DeepCopyObject()
	}
	to := reflect.New(from.Type().Elem())
	to.Elem().Set(from.Elem())
	return to.Interface().(runtime.Object)
}

// copyMaps returns an object whose struct can be copied by assignment, which then is a shallow
// copy. Most objects already are; the struct of an unstructured one contains only a map.
func copyMaps(obj runtime.Object) runtime.Object {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	top := maps.Clone(u.Object)
	if meta, ok := top["metadata"].(map[string]any); ok {
		top["metadata"] = maps.Clone(meta)
	}
	return &unstructured.Unstructured{Object: top}
}

func isMap(obj runtime.Object) bool {
	_, ok := obj.(*unstructured.Unstructured)
	return ok
}

// before returns the object that a change replaced or deleted, with the revision of the change. It
// is created once and shared by the watches that send it.
func (s *objects) before(ctx context.Context, c *change) (obj runtime.Object, shared bool, err error) {
	known := c.gone.Load()
	if known != nil && known.by == s {
		return known.obj, true, nil
	}
	if obj, shared, err = s.object(ctx, c.key, c.prev); err != nil {
		return nil, false, err
	}
	if !shared {
		setRevision(obj, c.rev)
		return obj, false, nil
	}
	obj = shallowCopy(obj)
	setRevision(obj, c.rev)
	return s.remember(&c.gone, known, obj), true, nil
}
