// Package podcache watches the pods of a cluster once for all informers of one process: a pod is
// received and kept in memory once, and each reader gets a pointer to the same object. It reads from
// the API, or from a source in the same process: of the pods of that source, it neither copies nor
// modifies any part.
//
// A reader is an ordinary client-go informer whose client comes from Cache.Client. It observes what
// it would observe from the API: the pods that exist, then each change in order. If the cache misses
// changes and lists again, each reader that is affected gets a 410 (expired) and lists again too.
// That matters for workload.Freshness: a reader that has reached a revision has observed every write
// up to it.
//
// The cache is not an informer: it has no indexes and no event handlers (RememberIndex makes an index of an informer cheaper). It is not a general cache either;
// it serves pods of all namespaces, optionally with one field selector, and rejects other requests.
//
// Floor: F3. Imports controller/reconcile, client-go and apimachinery.
package podcache
