package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// storeRoot is the prefix of all keys of an API server in etcd.
const storeRoot = "/registry"

// content is the part of a Backend that reads and writes it as a whole. Keys are those in etcd: /registry/pods/default/a.
type content interface {
	// pairs calls visit with all keys and values as they were at one revision. The values are shared.
	pairs(ctx context.Context, visit func(key string, value []byte) error) error
	// load writes the pairs that next returns until io.EOF into a store that must be empty.
	load(ctx context.Context, next func() (key string, value []byte, err error)) error
	// checkComplete returns ErrPart if the process was killed during load.
	checkComplete(ctx context.Context) error
}

// leftOut are the prefixes of the keys that a new cluster must not begin with: the leases of the old one's components and nodes, events, and
// the authorities of its clients, to which the API server of the new cluster would add its own.
var leftOut = []string{
	"/registry/events/", "/registry/leases/", "/registry/leasecandidates/", "/registry/masterleases/", "/registry/peerserverleases/",
	"/registry/configmaps/kube-system/extension-apiserver-authentication",
}

// Load writes content, if it is not nil, into the store of a Backend before a server starts. The store must be empty (ErrNotEmpty). If Load
// fails, the store may have a part of the content, and a later Load, also without content, rejects it (ErrPart).
func Load(ctx context.Context, b Backend, content *snapshot.StoreReader) error {
	if err := b.checkComplete(ctx); err != nil {
		return err
	}
	if content == nil {
		return nil
	}
	if err := b.load(ctx, content.Next); err != nil {
		return fmt.Errorf("write the snapshot into the store: %w", err)
	}
	return nil
}

// serveContent is the handler of snapshot.StorePath. As it is no resource, only the group system:masters and those to whom a rule with
// nonResourceURLs permits it may read it.
func serveContent(c content, version string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "only GET is supported", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		out, err := snapshot.NewStoreWriter(w, false, snapshot.Header{
			Created: time.Now().UTC().Format(time.RFC3339), KubernetesVersion: KubernetesVersion, RehearseVersion: version,
		})
		if err == nil {
			err = c.pairs(r.Context(), func(key string, value []byte) error {
				for _, prefix := range leftOut {
					if strings.HasPrefix(key, prefix) {
						return nil
					}
				}
				return out.Write(key, value)
			})
		}
		if err == nil {
			err = out.Close()
		}
		if err != nil {
			klog.ErrorS(err, "Send the store")
			panic(http.ErrAbortHandler) // the client notices that the content has no end
		}
	})
}

var (
	// ErrPart reports a store that has only a part of the content that Load was to write.
	ErrPart = errors.New("the store has only a part of the snapshot with which it was to begin, because the process was killed; remove it, and start again with the snapshot")
	// ErrNotEmpty reports a store that has content already.
	ErrNotEmpty = errors.New("the store is not empty")
)

// serviceNodePorts is the one key for which the API server uses an etcd client, whatever its storage is, so it has the prefix in the
// memory store too.
const serviceNodePorts = storeRoot + "/ranges/servicenodeports"

func (m Memory) pairs(_ context.Context, visit func(key string, value []byte) error) error {
	all, _, _, err := m.Worlds.World("").RawRange("/", "0", 0, 0)
	if err != nil {
		return err
	}
	for _, kv := range all {
		key := kv.Key
		if key != serviceNodePorts {
			key = storeRoot + key
		}
		if err := visit(key, kv.Value); err != nil {
			return err
		}
	}
	return nil
}

func (m Memory) load(ctx context.Context, next func() (key string, value []byte, err error)) error {
	world := m.Worlds.World("")
	if _, count, _, err := world.RawRange("/", "0", 1, 0); err != nil || count > 0 {
		return errors.Join(err, ErrNotEmpty)
	}
	for ctx.Err() == nil {
		key, value, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if key != serviceNodePorts {
			key = strings.TrimPrefix(key, storeRoot)
		}
		if _, ok := world.RawPut(key, value, 0); !ok {
			return fmt.Errorf("the key %s exists twice", key)
		}
	}
	return ctx.Err()
}

func (Memory) checkComplete(context.Context) error { return nil }

func (e Etcd) pairs(ctx context.Context, visit func(key string, value []byte) error) error {
	return e.withContent(func(c etcdContent) error { return c.pairs(ctx, visit) })
}

func (e Etcd) load(ctx context.Context, next func() (key string, value []byte, err error)) error {
	return e.withContent(func(c etcdContent) error { return c.load(ctx, next) })
}

func (e Etcd) checkComplete(ctx context.Context) error {
	return e.withContent(func(c etcdContent) error { return c.checkComplete(ctx) })
}

func (e Etcd) withContent(use func(etcdContent) error) error {
	client, err := e.client()
	if err != nil {
		return err
	}
	defer client.Close()
	return use(etcdContent{client, cmp.Or(strings.TrimSuffix(e.Prefix, "/"), storeRoot)})
}

func (e *EmbeddedEtcd) pairs(ctx context.Context, visit func(key string, value []byte) error) error {
	return e.external().pairs(ctx, visit)
}

func (e *EmbeddedEtcd) load(ctx context.Context, next func() (key string, value []byte, err error)) error {
	return e.external().load(ctx, next)
}

func (e *EmbeddedEtcd) checkComplete(ctx context.Context) error {
	return e.external().checkComplete(ctx)
}

// external is this etcd as its clients see it.
func (e *EmbeddedEtcd) external() Etcd { return Etcd{Servers: []string{e.client}} }

// etcdContent is the content of an etcd cluster below a prefix.
type etcdContent struct {
	*clientv3.Client
	root string // without the slash
}

const (
	// loading exists while a store has only a part of its first content.
	loading = "/rehearse/loading"
	// pageKeys is how many keys are read at once.
	pageKeys = 1000
	// txnWrites and txnBytes limit a transaction; etcd accepts 128 operations and 1.5 MiB.
	txnWrites = 128
	txnBytes  = 1 << 20
)

func (c etcdContent) pairs(ctx context.Context, visit func(key string, value []byte) error) error {
	from, end, revision := c.root+"/", clientv3.GetPrefixRangeEnd(c.root+"/"), int64(0)
	for {
		page, err := c.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageKeys), clientv3.WithRev(revision))
		if err != nil {
			return err
		}
		if revision == 0 {
			revision = page.Header.Revision // later pages have the revision of their own time in the header
		}
		for _, kv := range page.Kvs {
			if err := visit(storeRoot+strings.TrimPrefix(string(kv.Key), c.root), kv.Value); err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !page.More {
			return nil
		}
	}
}

func (c etcdContent) checkComplete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	found, err := c.Get(ctx, loading)
	if err == nil && found.Count > 0 {
		err = ErrPart
	}
	return err
}

func (c etcdContent) load(ctx context.Context, next func() (key string, value []byte, err error)) error {
	found, err := c.Get(ctx, c.root+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if found.Count > 0 {
		return ErrNotEmpty
	}
	if _, err := c.Put(ctx, loading, ""); err != nil {
		return err
	}
	var writes []clientv3.Op
	size := 0
	send := func() error {
		if len(writes) == 0 {
			return nil
		}
		_, err := c.Txn(ctx).Then(writes...).Commit()
		if err != nil {
			err = fmt.Errorf("%s and the %d keys after it (%d bytes): %w", writes[0].KeyBytes(), len(writes)-1, size, err)
		}
		writes, size = writes[:0], 0
		return err
	}
	for {
		key, value, err := next()
		if err == io.EOF {
			if err = send(); err == nil {
				_, err = c.Delete(ctx, loading)
			}
			return err
		}
		if err != nil {
			return err
		}
		if len(writes) == txnWrites || size+len(key)+len(value) > txnBytes {
			if err := send(); err != nil {
				return err
			}
		}
		size += len(key) + len(value)
		writes = append(writes, clientv3.OpPut(c.root+strings.TrimPrefix(key, storeRoot), string(value)))
	}
}
