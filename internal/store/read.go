package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

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
	count, rev, err := l.find(ctx, prefix)
	if err != nil {
		return err
	}
	if err := l.corruption(); err != nil {
		return err
	}
	l.fill()
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

	like     runtime.Object   // an empty item
	selected []runtime.Object // the items of the list
	selector selector
	lastKey  string // the last key that was read
	read     int64  // the number of keys up to that one
	more     bool   // whether there are keys after it
	corrupt  []error
}

// mostKeys is the largest number of keys that a page with a selector reads at once, the same as in etcd3's store.
const mostKeys = 10000

// find selects the items of the list, starting where its token says, and returns the list's revision. count is the number of keys from there on, if
// there is no selector.
func (l *lister) find(ctx context.Context, prefix string) (count, rev int64, err error) {
	opts, keep := l.opts, 0
	if opts.Predicate.Limit > 0 {
		keep = int(min(opts.Predicate.Limit, math.MaxInt32-1)) + 1
	}
	rev, from, err := storage.ValidateListOptions(prefix, l.objects.versioner, opts)
	if err != nil {
		return 0, 0, err
	}
	keys := rest{from: cmp.Or(from, prefix), rev: rev}
	if opts.Recursive {
		keys.end = prefixEnd(prefix)
	}
	l.like = l.newItem()
	count, at, err := l.page(ctx, keys, keep)
	if errors.Is(err, ErrCompacted) && rev == 0 {
		// The world has forgotten the revision between two reads of the page. A single read needs no revision.
		count, at, err = l.page(ctx, keys, 0)
	}
	if errors.Is(err, ErrCompacted) {
		return 0, 0, errListTooOld(opts.Predicate.Continue != "", keys.from, prefix)
	}
	return count, at, err
}

// page reads keys until the page is full or there are no more; all at once if keep is 0. If the selector selects everything, one read is enough, of one key
// more than a page contains, to detect that it is not the last page. A page of a list with a selector reads as many, and then twice as many each time
// until it is full, as etcd3's store does: if most objects are selected, it need not look at all that follow.
func (l *lister) page(ctx context.Context, keys rest, keep int) (count, rev int64, err error) {
	l.selected, l.read, l.more, l.corrupt = nil, 0, false, nil
	w, countable := l.objects.world(ctx), l.opts.Predicate.Empty()
	if keys.rev < 0 || keys.rev == newestRevision { // no revisions, but a request can contain any number
		return 0, 0, storage.NewTooLargeResourceVersionError(uint64(keys.rev), uint64(w.Revision()), 0)
	}
	count, counted := w.counts.take(keys)
	for first := true; ; first = false {
		found, n, now, err := w.span(keys.from, keys.end, cmp.Or(keys.rev, newestRevision), keep, first && countable && !counted)
		switch {
		case errors.Is(err, ErrFutureRevision):
			return 0, 0, storage.NewTooLargeResourceVersionError(uint64(keys.rev), uint64(now), 0)
		case err != nil:
			return 0, 0, err
		}
		if first {
			keys.rev = cmp.Or(keys.rev, now)
			if !counted {
				count = n
			}
			if err := l.objects.atLeast(l.opts.ResourceVersion, now); err != nil {
				return 0, 0, err
			}
		}
		if err := l.add(ctx, found); err != nil {
			return 0, 0, err
		}
		all := keep == 0 || len(found) < keep
		keys.from = l.lastKey + "\x00"
		if l.more && countable {
			w.counts.put(keys, count-l.read)
		}
		if l.more || all {
			return count, keys.rev, nil
		}
		if keep = max(keep, min(2*keep, mostKeys)); len(l.selected) == int(l.opts.Predicate.Limit) {
			keep = 1 // the page is full: is it the last one?
		}
	}
}

// add appends selected items until the page is full.
func (l *lister) add(ctx context.Context, found []keyed) error {
	limit := int(l.opts.Predicate.Limit)
	if l.selector.all {
		l.selected = slices.Grow(l.selected, len(found))
	}
	for _, f := range found {
		if limit > 0 && len(l.selected) >= limit {
			l.more = true
			return nil
		}
		if ctx.Err() != nil {
			return storage.NewTimeoutError(f.key, "the request ended before its list was complete")
		}
		l.lastKey = f.key
		l.read++
		item, err := l.item(ctx, f)
		switch {
		case err != nil && !l.continueAfter(f.key, err):
			return err
		case err == nil && l.selector.selects(item):
			l.selected = append(l.selected, item)
		}
	}
	return nil
}

// item returns an object that the caller must not modify.
func (l *lister) item(ctx context.Context, f keyed) (runtime.Object, error) {
	s := l.objects
	if s.transformer == nil && s.readable(l.like) {
		obj, _, err := s.object(ctx, f.key, f.version)
		if err != nil || sameType(obj, l.like) {
			return obj, err
		}
	}
	item := l.newItem()
	return item, s.read(ctx, f.key, f.version, item, true)
}

// fill sets the items of the list to shallow copies of the selected objects. The slice is never nil, because an empty list must not be null in JSON.
func (l *lister) fill() {
	l.items.Set(reflect.MakeSlice(l.items.Type(), len(l.selected), len(l.selected)))
	for i, item := range l.selected {
		l.items.Index(i).Set(reflect.ValueOf(copyMaps(item)).Elem())
	}
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
