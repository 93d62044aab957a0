package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Get implements storage.Interface. The data behind the object's pointers, maps and slices is
// shared and must not be modified.
func (s *objects) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	v, rev := s.world(ctx).live(key)
	if err := s.atLeast(opts.ResourceVersion, rev); err != nil {
		return err
	}
	if v == nil {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	return corrupt(key, s.read(ctx, key, v, out, false))
}

// GetList implements storage.Interface. Items are shared as with Get.
func (s *objects) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	prefix, err := s.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	items, err := itemsOf(listObj)
	if err != nil {
		return err
	}
	l := lister{objects: s, list: listObj, items: items, opts: opts, selector: newSelector(opts.Predicate)}
	found, count, rev, err := l.find(ctx, prefix)
	if err != nil {
		return err
	}
	if err := l.fill(ctx, found); err != nil {
		return err
	}
	next, remaining, err := storage.PrepareContinueToken(l.lastKey, prefix, rev, count, l.more, opts)
	if err != nil {
		return err
	}
	if err := s.versioner.UpdateList(listObj, uint64(rev), next, remaining); err != nil {
		return err
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) {
		opts.Predicate.SetShardInfoOnList(listObj)
	}
	return nil
}

// itemsOf returns the settable slice of a list object's items.
func itemsOf(listObj runtime.Object) (reflect.Value, error) {
	ptr, err := meta.GetItemsPtr(listObj)
	if err != nil {
		return reflect.Value{}, err
	}
	items, err := conversion.EnforcePtr(ptr)
	if err != nil || items.Kind() != reflect.Slice {
		return reflect.Value{}, fmt.Errorf("store: items of %T are no slice: %w", listObj, err)
	}
	return items, nil
}

// lister builds one list.
type lister struct {
	objects *objects
	list    runtime.Object
	items   reflect.Value
	opts    storage.ListOptions

	like     runtime.Object // an empty item
	selector selector
	lastKey  string // the last key that was read
	more     bool   // whether there are keys after it
	corrupt  []error
}

// find collects the versions that the list may contain, starting where its token says, and returns
// the list's revision. count is their number. If the selector selects everything, find collects
// only as many as a page contains, and one more to detect that it is not the last page.
func (l *lister) find(ctx context.Context, prefix string) (found []keyed, count, rev int64, err error) {
	s, opts, keep := l.objects, l.opts, 0
	if l.selector.all && opts.Predicate.Limit > 0 {
		keep = int(opts.Predicate.Limit) + 1
	}
	rev, from, err := storage.ValidateListOptions(prefix, s.versioner, opts)
	if err != nil {
		return nil, 0, 0, err
	}
	if from == "" {
		from = prefix
	}
	end := ""
	if opts.Recursive {
		end = prefixEnd(prefix)
	}
	at := rev
	if at == 0 {
		at = newestRevision
	}
	found, count, now, err := s.world(ctx).span(from, end, at, keep)
	switch {
	case errors.Is(err, ErrFutureRevision):
		return nil, 0, 0, storage.NewTooLargeResourceVersionError(uint64(rev), uint64(now), 0)
	case errors.Is(err, ErrCompacted):
		return nil, 0, 0, errListTooOld(opts.Predicate.Continue != "", from, prefix)
	case err != nil:
		return nil, 0, 0, err
	}
	if rev == 0 {
		rev = now
	}
	return found, count, rev, s.atLeast(opts.ResourceVersion, now)
}

// fill appends selected items until the page is full. The slice is never nil, because an empty list
// must not be null in JSON.
func (l *lister) fill(ctx context.Context, found []keyed) error {
	l.like = l.newItem()
	limit := int(l.opts.Predicate.Limit)
	l.grow(found, limit)
	for _, f := range found {
		if limit > 0 && l.items.Len() >= limit {
			l.more = true
			break
		}
		if ctx.Err() != nil {
			return storage.NewTimeoutError(f.key, "the request ended before its list was complete")
		}
		l.lastKey = f.key
		if err := l.add(ctx, f); err != nil {
			if !l.continueAfter(f.key, err) {
				return err
			}
		}
	}
	return l.corruption()
}

// grow reserves capacity: for all items if all are selected, otherwise for a few.
func (l *lister) grow(found []keyed, limit int) {
	n := len(found)
	if limit > 0 {
		n = min(n, limit)
	}
	if !l.selector.all {
		n = min(n, 64)
	}
	l.items.Set(reflect.MakeSlice(l.items.Type(), 0, n))
}

// add appends one item if it is selected.
func (l *lister) add(ctx context.Context, f keyed) error {
	s := l.objects
	if s.transformer == nil && s.readable(l.like) {
		obj, _, err := s.object(ctx, f.key, f.version)
		if err != nil {
			return err
		}
		if sameType(obj, l.like) {
			if l.selector.selects(obj) {
				l.append(copyMaps(obj))
			}
			return nil
		}
	}
	item := l.newItem()
	if err := s.read(ctx, f.key, f.version, item, true); err != nil {
		return err
	}
	if l.selector.selects(item) {
		l.append(item)
	}
	return nil
}

// append adds a shallow copy of an item to the list.
func (l *lister) append(item runtime.Object) {
	n := l.items.Len()
	l.items.Grow(1)
	l.items.SetLen(n + 1)
	l.items.Index(n).Set(reflect.ValueOf(item).Elem())
}

// newItem returns an empty item. The items of an unstructured list must have the list's version,
// and the codec converts only objects that ask for a version.
func (l *lister) newItem() runtime.Object {
	if list, ok := l.list.(*unstructured.UnstructuredList); ok {
		item := &unstructured.Unstructured{Object: map[string]any{}}
		if version := list.GetAPIVersion(); version != "" {
			item.SetAPIVersion(version)
		}
		return item
	}
	return reflect.New(l.items.Type().Elem()).Interface().(runtime.Object)
}
