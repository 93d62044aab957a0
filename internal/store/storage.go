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

// Config says what one Storage keeps.
type Config struct {
	// Codec turns objects into stored bytes and back. Required.
	Codec runtime.Codec
	// Transformer stands between the codec and the stored bytes, as encryption
	// at rest does. With one, every read decodes; nil is the fast path.
	Transformer value.Transformer
	// NewFunc makes an empty object. Without it there are no bookmarks.
	NewFunc func() runtime.Object
	// NewListFunc makes an empty list. It is kept for the day when a list has to
	// be made here; nothing needs it now.
	NewListFunc func() runtime.Object
	// ResourcePrefix begins every key of the resource, as in "/pods".
	ResourcePrefix string
	// GroupResource names the resource in errors.
	GroupResource schema.GroupResource
}

// objects is a storage.Interface over all worlds; the context of a call says
// which one is meant.
type objects struct {
	worlds      *Worlds
	codec       runtime.Codec
	transformer value.Transformer // nil: the bytes are stored as they are
	newFunc     func() runtime.Object
	goType      reflect.Type // of what newFunc makes
	prefix      string
	resource    schema.GroupResource
	versioner   storage.APIObjectVersioner
	sizes       atomic.Bool // Stats estimates sizes too
}

var _ storage.Interface = (*objects)(nil)

// Storage returns a storage.Interface for one resource. Several may share a
// prefix: they see each other's writes, each through its own codec. The error
// says what is wrong with the configuration.
func (ws *Worlds) Storage(c Config) (storage.Interface, error) {
	s, err := ws.newObjects(c)
	if err != nil {
		return nil, err // not s: a nil *objects would be no nil interface
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

func (s *objects) world(ctx context.Context) *World { return s.worlds.World(RunFrom(ctx)) }

// directory is the prefix of all keys of the resource, with its slash.
func (s *objects) directory() string { return strings.TrimSuffix(s.prefix, "/") + "/" }

// Versioner implements storage.Interface.
func (s *objects) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck implements storage.Interface. Memory is always ready.
func (s *objects) ReadinessCheck() error { return nil }

// CompactRevision implements storage.Interface. It has no context, so it speaks of
// the process's world.
func (s *objects) CompactRevision() int64 { return s.worlds.World("").CompactRevision() }

// RequestWatchProgress implements storage.Interface: every watch of the world that
// asked for progress is told the present revision, behind all that happened up to
// it, before this returns.
func (s *objects) RequestWatchProgress(ctx context.Context) error {
	s.world(ctx).requestProgress()
	return nil
}

// GetCurrentResourceVersion implements storage.Interface. The progress watches of
// this resource are told the revision too. Upstream's watch cache asks here and
// then waits until its watch has reached the answer; were it not told, it would
// wait for its own timer (100 ms) to ask for progress.
func (s *objects) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return uint64(s.world(ctx).revisionWithProgress(s.directory())), nil
}

// EnableResourceSizeEstimation implements storage.Interface. The sizes are counted
// from what is stored when Stats is called; keys is not used, but it must be there
// and this must be called once only, as with etcd.
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
	found, count, _, err := s.world(ctx).span(dir, prefixEnd(dir), newestRevision, 0)
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

// key checks a key and brings it into its stored form.
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

// atLeast rejects an answer that is older than the caller demands.
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
