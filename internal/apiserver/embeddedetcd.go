package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apiserver/pkg/registry/generic"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// quotaBytes is the maximal database size of an embedded etcd (etcd's own default of 2 GiB is too little for
// 100,000 pods with their history).
const quotaBytes = 8 << 30

// startTimeout limits the time in which an embedded etcd replays its log.
const startTimeout = 2 * time.Minute

// brokenCloseTimeout limits the wait for an etcd to close after it failed or before it was ready.
const brokenCloseTimeout = time.Second

// EmbeddedEtcd is an in-process etcd over a data directory of the user. It syncs every write to disk before
// it acknowledges it, so acknowledged writes survive kill -9. Clients connect over Unix sockets that only the
// owner may open.
type EmbeddedEtcd struct {
	etcd   *embed.Etcd   // nil if it could not be started; not valid before opened is closed
	opened chan struct{} // closed when the start of etcd has returned
	dir    string        // the data directory
	lock   *flock.Flock
	client string
	failed chan error
	ready  atomic.Bool // etcd serves requests
	broken atomic.Bool // a goroutine of etcd exited with a fatal error
	close  func()
}

// StartEmbeddedEtcd opens, or creates, a data directory. It rejects a directory that another process has
// locked, or whose contents etcd cannot read, with an error of one line, and does not change it.
func StartEmbeddedEtcd(ctx context.Context, dir string) (*EmbeddedEtcd, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := lockDataDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := checkMember(filepath.Join(dir, "etcd", "member")); err != nil {
		_ = lock.Unlock()
		return nil, fmt.Errorf("data directory %s: %w; restore it from a copy, or choose another directory", dir, err)
	}
	sockets, err := socketDir(dir)
	if err != nil {
		_ = lock.Unlock()
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	e := &EmbeddedEtcd{dir: dir, lock: lock, failed: make(chan error, 1), client: "unix://" + filepath.Join(sockets, "client")}
	e.close = sync.OnceFunc(e.shutdown)
	if err := e.start(ctx, filepath.Join(dir, "etcd")); err != nil {
		e.close()
		return nil, fmt.Errorf("data directory %s: %w; restore it from a copy, or choose another directory", dir, err)
	}
	return e, nil
}

func (e *EmbeddedEtcd) config(dir string) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = "rehearse", dir
	client, _ := url.Parse(e.client)
	c.ListenClientUrls = []url.URL{*client}
	// A cluster of one has no peers. Its membership must name TCP addresses nevertheless; nothing listens or
	// dials there.
	peer := url.URL{Scheme: "http", Host: "localhost:2380"}
	c.ListenPeerUrls, c.AdvertisePeerUrls = nil, []url.URL{peer}
	c.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "localhost:2379"}}
	c.InitialCluster = c.Name + "=" + peer.String()
	c.QuotaBackendBytes = quotaBytes
	// One member never waits for a leader.
	c.TickMs, c.ElectionMs = 10, 50
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(e.logger())
	return c
}

// logger discards etcd's logs and prevents etcd from exiting the process: a fatal message ends the goroutine
// that logs it, and is reported.
func (e *EmbeddedEtcd) logger() *zap.Logger {
	core := zapcore.NewNopCore()
	return zap.New(fatalCore{core}, zap.WithFatalHook(goexitHook{e}), zap.WithPanicHook(goexitHook{e}))
}

// fatalCore passes only the messages that would exit the process, so that their hook receives them.
type fatalCore struct{ zapcore.Core }

func (fatalCore) Enabled(l zapcore.Level) bool { return l >= zapcore.DPanicLevel }
func (c fatalCore) Check(entry zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return ce.AddCore(entry, c)
	}
	return ce
}

type goexitHook struct{ e *EmbeddedEtcd }

func (h goexitHook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	msg := ce.Message
	for _, f := range fields {
		if f.Type == zapcore.ErrorType {
			msg += fmt.Sprintf(": %v", f.Interface)
		}
	}
	h.e.broken.Store(true)
	h.e.fail(errors.New(msg))
	zapcore.WriteThenGoexit.OnWrite(ce, fields)
}

func (e *EmbeddedEtcd) fail(err error) {
	select {
	case e.failed <- err:
	default: // the first failure is the cause
	}
}

func (e *EmbeddedEtcd) start(ctx context.Context, dir string) error {
	e.opened = make(chan struct{})
	opened := e.opened
	go func() {
		defer close(e.opened) // at any end, also that of goexitHook
		defer func() {
			if p := recover(); p != nil {
				e.fail(fmt.Errorf("open with etcd: %v", p))
			}
		}()
		etcd, err := embed.StartEtcd(e.config(dir))
		if err != nil {
			e.fail(err)
			return
		}
		e.etcd = etcd
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	var ready <-chan struct{}
	for {
		select {
		case <-opened:
			if opened = nil; e.etcd != nil { // else the cause is in failed
				ready = e.etcd.Server.ReadyNotify()
			}
		case <-ready:
			e.ready.Store(true)
			return nil
		case err := <-e.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			return fmt.Errorf("etcd was not ready within %s", startTimeout)
		}
	}
}

// Failed returns a channel that yields the error after which etcd cannot continue (a full disk, for
// instance). No acknowledged write is lost.
func (e *EmbeddedEtcd) Failed() <-chan error { return e.failed }

// Close stops etcd and releases the data directory.
func (e *EmbeddedEtcd) Close() { e.close() }

func (e *EmbeddedEtcd) shutdown() {
	release := sync.OnceFunc(func() {
		_ = removeSockets(e.dir)
		_ = e.lock.Unlock()
	})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if <-e.opened; e.etcd != nil { // the start may have been interrupted
			e.etcd.Close()
		}
		release()
	}()
	var timeout <-chan time.Time // nil: wait until etcd is closed
	if e.broken.Load() || !e.ready.Load() {
		// Close waits for requests, which wait for a goroutine that has exited, or for a leader.
		timeout = time.After(brokenCloseTimeout)
	}
	select {
	case <-closed:
	case <-timeout:
		select {
		case <-e.opened:
			release()
		default:
			// etcd still opens its files, for example a large database. The directory is released when it has opened and closed them.
		}
	}
}

func (e *EmbeddedEtcd) prepare(o *genericoptions.EtcdOptions) {
	o.StorageConfig.Transport.ServerList = []string{e.client}
}

func (e *EmbeddedEtcd) getter(next generic.RESTOptionsGetter, _ bool) generic.RESTOptionsGetter {
	return etcdGetter{next}
}

// run reports failures of etcd after its start.
func (e *EmbeddedEtcd) run(ctx context.Context) {
	select {
	case err := <-e.etcd.Err():
		if err != nil {
			e.fail(err)
		}
	case <-ctx.Done():
	}
}
