package podcache

import (
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// RememberIndex returns the informer with an indexer that remembers what ByIndex returned for this index, until an object of the informer
// changes. The index must be added after that, with AddIndexers of the returned informer. Callers must not modify the slices that ByIndex returns.
//
// The nodelifecycle controller asks for the pods of every node every five seconds, whether a pod has changed or not. For 100,000 pods,
// client-go looks up each of them in a map by its key, which needs 1.5 % of a core.
func RememberIndex(informer cache.SharedIndexInformer, index string) cache.SharedIndexInformer {
	return &rememberingInformer{SharedIndexInformer: informer, index: index, indexer: &rememberingIndexer{
		Indexer: informer.GetIndexer(), index: index, results: map[string]remembered{},
	}}
}

type rememberingInformer struct {
	cache.SharedIndexInformer
	index   string
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
	results map[string]remembered
}

// remembered is a result of ByIndex, and the number of changes before it was read.
type remembered struct {
	objects []any
	changes int64
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
	result := cache.Indexers{}
	for name, f := range added {
		result[name] = f
	}
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
	x.mu.Lock()
	r, ok := x.results[value]
	x.mu.Unlock()
	if ok && r.changes == changes && x.exists(r.objects) {
		return r.objects, nil
	}
	objects, err := x.Indexer.ByIndex(index, value)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(objects) == 0 {
		delete(x.results, value) // for example, of a node that was deleted
	} else {
		x.results[value] = remembered{objects[:len(objects):len(objects)], changes}
	}
	return objects, nil
}

// exists reports whether the first object is still in the store.
func (x *rememberingIndexer) exists(objects []any) bool {
	stored, ok, err := x.Get(objects[0])
	return ok && err == nil && stored == objects[0]
}
