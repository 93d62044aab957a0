package podcache

import (
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// RememberIndex returns the informer with an indexer that remembers what ByIndex returned for this index, until an object of the informer
// changes. The index must be added after that, with AddIndexers of the returned informer. Callers must not modify the slices that ByIndex returns.
//
// The nodelifecycle controller asks for the pods of every node every five seconds, whether a pod has changed or not. For 100,000 pods,
// client-go looks up each of them in a map by its key, which was 9 % of what an idle cluster needs of a core (docs/design/performance.md).
func RememberIndex(informer cache.SharedIndexInformer, index string) cache.SharedIndexInformer {
	return &rememberingInformer{SharedIndexInformer: informer, indexer: &rememberingIndexer{
		Indexer: informer.GetIndexer(), index: index, results: map[string][]any{},
	}}
}

type rememberingInformer struct {
	cache.SharedIndexInformer
	indexer *rememberingIndexer
}

func (i *rememberingInformer) GetIndexer() cache.Indexer { return i.indexer }
func (i *rememberingInformer) GetStore() cache.Store     { return i.indexer }

// AddIndexers implements cache.SharedIndexInformer.
func (i *rememberingInformer) AddIndexers(added cache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(i.indexer.counted(added))
}

// rememberingIndexer is an Indexer that remembers results of one index. Its store calls the index's function for each object that is added, updated
// or deleted, under the lock under which the change happens. So a result that was read after the last call is current. There is one change without
// a call: a list without objects replaces all. Then no object of a result exists anymore.
type rememberingIndexer struct {
	cache.Indexer
	index   string
	changes atomic.Int64 // calls of the index's function

	mu      sync.Mutex
	read    int64            // the changes before the results were read
	results map[string][]any // by value of the index; without values that have no objects
}

// AddIndexers implements cache.Indexer.
func (x *rememberingIndexer) AddIndexers(added cache.Indexers) error {
	return x.Indexer.AddIndexers(x.counted(added))
}

// counted returns the indexers, with a function for the remembered index that counts its calls.
func (x *rememberingIndexer) counted(added cache.Indexers) cache.Indexers {
	values, ok := added[x.index]
	if !ok {
		return added
	}
	result := maps.Clone(added)
	result[x.index] = func(obj any) ([]string, error) {
		x.changes.Add(1)
		return values(obj)
	}
	return result
}

// ByIndex implements cache.Indexer.
func (x *rememberingIndexer) ByIndex(index, value string) ([]any, error) {
	changes := x.changes.Load() // before the read: a change meanwhile makes the result old
	if index != x.index || changes == 0 {
		return x.Indexer.ByIndex(index, value)
	}
	if objects := x.remembered(value, changes); objects != nil && x.exists(objects[0]) {
		return objects, nil
	}
	objects, err := x.Indexer.ByIndex(index, value)
	if err != nil {
		return nil, err
	}
	objects = objects[:len(objects):len(objects)]
	x.remember(value, changes, objects)
	return objects, nil
}

// remembered returns the result for a value, if it was read after this number of changes.
func (x *rememberingIndexer) remembered(value string, changes int64) []any {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.read != changes {
		return nil
	}
	return x.results[value]
}

// remember keeps a result that was read after this number of changes, and drops all that were read before: they would keep old objects in memory.
func (x *rememberingIndexer) remember(value string, changes int64, objects []any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if changes > x.read {
		clear(x.results)
		x.read = changes
	}
	switch {
	case changes < x.read: // others have read a newer state
	case len(objects) == 0:
		delete(x.results, value)
	default:
		x.results[value] = objects
	}
}

// exists reports whether an object is still in the store.
func (x *rememberingIndexer) exists(object any) bool {
	stored, ok, err := x.Get(object)
	return ok && err == nil && stored == object
}
