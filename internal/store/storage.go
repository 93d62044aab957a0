package store

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
)

// Config configures one Storage.
type Config struct {
	// Codec encodes and decodes objects. Required.
	Codec runtime.Codec
	// Transformer transforms the encoded bytes, for example to encrypt the stored data. With a
	// transformer every read decodes; without one (nil) readers share decoded objects.
	Transformer value.Transformer
	// NewFunc returns an empty object. Without it there are no bookmarks.
	NewFunc func() runtime.Object
	// NewListFunc returns an empty list. It is not used now; the registry supplies it, and a
	// Storage that creates lists itself would need it.
	NewListFunc func() runtime.Object
	// ResourcePrefix is the prefix of every key of the resource, such as "/pods".
	ResourcePrefix string
	// GroupResource is the resource's name in errors.
	GroupResource schema.GroupResource
}

// objects is a storage.Interface over all worlds; the context of a call selects the world.
type objects struct {
	worlds      *Worlds
	codec       runtime.Codec
	transformer value.Transformer // nil: the bytes are stored as they are
	newFunc     func() runtime.Object
	goType      reflect.Type // the type that newFunc returns
	prefix      string
	resource    schema.GroupResource
	versioner   storage.APIObjectVersioner
	sizes       atomic.Bool // whether Stats also estimates sizes
}

var _ storage.Interface = (*objects)(nil)

// Storage returns a storage.Interface for one resource. Several may share a prefix: they see each
// other's writes, each through its own codec. It returns an error if the configuration is invalid.
func (ws *Worlds) Storage(c Config) (storage.Interface, error) {
	s, err := ws.newObjects(c)
	if err != nil {
		return nil, err // not s: an interface with a nil *objects is not nil
	}
	return s, nil
}

func (ws *Worlds) newObjects(c Config) (*objects, error) {
	switch {
	case c.Codec == nil:
		return nil, errors.New("store: no codec")
	case c.ResourcePrefix == "", c.ResourcePrefix == "/":
		return nil, errors.New("store: the resource prefix is empty")
	case !strings.HasPrefix(c.ResourcePrefix, "/"):
		return nil, errors.New("store: the resource prefix does not begin with a slash")
	}
	s := &objects{
		worlds:      ws,
		codec:       c.Codec,
		transformer: c.Transformer,
		newFunc:     c.NewFunc,
		prefix:      c.ResourcePrefix,
		resource:    c.GroupResource,
	}
	if c.NewFunc != nil {
		s.goType = reflect.TypeOf(c.NewFunc())
	}
	ws.directories.note(s.resource, s.directory())
	return s, nil
}

// Publish makes a Storage the one that Published returns for a resource.
func (ws *Worlds) Publish(resource schema.GroupResource, s storage.Interface) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.published[resource] = s
}

// Published returns the Storage that was last published for a resource, or nil. Its readers share objects with the other readers of that Storage, such as a
// watch cache; two Storages would decode each object for each other again.
func (ws *Worlds) Published(resource schema.GroupResource) storage.Interface {
	ws.mu.RLock()
	defer ws.mu.RUnlock()
	return ws.published[resource]
}

func (s *objects) world(ctx context.Context) *World { return s.worlds.World(RunFrom(ctx)) }

// directory is the prefix of all keys of the resource, with its slash.
func (s *objects) directory() string { return strings.TrimSuffix(s.prefix, "/") + "/" }

// Versioner implements storage.Interface.
func (s *objects) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck implements storage.Interface. Memory is always ready.
func (s *objects) ReadinessCheck() error { return nil }

// CompactRevision implements storage.Interface. It has no context, so it returns that of the
// process's world.
func (s *objects) CompactRevision() int64 { return s.worlds.World("").CompactRevision() }

// RequestWatchProgress implements storage.Interface: before it returns, every watch of the world
// that requested progress has been sent the current revision, after all events up to it.
func (s *objects) RequestWatchProgress(ctx context.Context) error {
	s.world(ctx).requestProgress()
	return nil
}

// GetCurrentResourceVersion implements storage.Interface. It also sends the revision to the
// progress watches of this resource: upstream's watch cache calls it and then waits until its watch
// has reached the returned revision, and would otherwise wait for its own timer (100 ms) to request
// progress.
func (s *objects) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return uint64(s.world(ctx).revisionWithProgress(s.directory())), nil
}

// EnableResourceSizeEstimation implements storage.Interface. Stats computes the sizes from the
// stored values, so keys is not used. As with etcd, keys must not be nil and a second call returns
// an error.
func (s *objects) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	if keys == nil {
		return errors.New("store: KeysFunc is nil")
	}
	if !s.sizes.CompareAndSwap(false, true) {
		return errors.New("store: resource size estimation is enabled already")
	}
	return nil
}

// Stats implements storage.Interface.
func (s *objects) Stats(ctx context.Context) (storage.Stats, error) {
	dir := s.directory()
	found, count, _, err := s.world(ctx).span(dir, prefixEnd(dir), newestRevision, 0, true)
	if err != nil {
		return storage.Stats{}, err
	}
	stats := storage.Stats{ObjectCount: count}
	if s.sizes.Load() && len(found) > 0 {
		var bytes int64
		for _, f := range found {
			bytes += int64(len(f.value))
		}
		stats.EstimatedAverageObjectSizeBytes = bytes / stats.ObjectCount
	}
	return stats, nil
}

// key validates a key and returns its stored form.
func (s *objects) key(key string, recursive bool) (string, error) {
	key, err := storage.PrepareKey(s.prefix, key, recursive)
	if err != nil {
		return "", err
	}
	if key[0] != '/' {
		key = "/" + key
	}
	return key, nil
}

// atLeast returns an error if the revision have is older than the caller requires.
func (s *objects) atLeast(demanded string, have int64) error {
	if demanded == "" {
		return nil
	}
	rv, err := s.versioner.ParseResourceVersion(demanded)
	if err != nil {
		return apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	if rv > uint64(have) {
		return storage.NewTooLargeResourceVersionError(rv, uint64(have), 0)
	}
	return nil
}
