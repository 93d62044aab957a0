package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/stage"
)

// Cluster is a running cluster.
type Cluster struct {
	options Options
	server  *apiserver.Server
	etcd    *apiserver.EmbeddedEtcd // nil unless Options.DataDir was given

	metrics *metrics

	cert, key []byte // the administrator's
	stop      func()
	done      chan struct{}
	mu        sync.Mutex
	err       error
}

// Start starts a cluster and returns when its API answers, its controllers run
// and its nodes exist. What was started is stopped again when it fails; the
// error is one line, a *UsageError when an option's value is the cause.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	set, err := loadStages(o.StageFiles)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, done: make(chan struct{})}
	if c.metrics, err = serveMetrics(o.MetricsAddress); err != nil {
		return nil, err
	}
	backend, pki, err := c.openBackend(ctx)
	if err != nil {
		c.metrics.close()
		return nil, err
	}
	// The parts end in the opposite order of their start: writers before the API,
	// the API before the disk. So each has a context of its own, and none hangs
	// on the caller's.
	base := context.WithoutCancel(ctx)
	c.server, err = apiserver.Start(base, apiserver.Options{
		Dir: pki, Backend: backend, BindAddress: o.BindAddress, Port: o.Port, Version: o.Version, WatchCache: true,
		Conversions: conversions(),
	})
	if err != nil {
		c.metrics.close()
		c.closeEtcd()
		return nil, err
	}
	workCtx, stopWork := context.WithCancel(base)
	var work sync.WaitGroup
	c.stop = sync.OnceFunc(func() {
		stopWork()
		work.Wait()
		c.metrics.close()
		c.server.Stop()
		c.closeEtcd()
		close(c.done)
	})
	if err := c.startParts(ctx, workCtx, &work, set, pki); err != nil {
		c.stop()
		return nil, err
	}
	go c.watchOver()
	return c, nil
}

// openBackend chooses where objects are kept, and with them the keys: a data
// directory that outlives the process needs its certificates to do so too.
func (c *Cluster) openBackend(ctx context.Context) (apiserver.Backend, string, error) {
	o := c.options
	switch {
	case o.DataDir != "":
		etcd, err := apiserver.StartEmbeddedEtcd(ctx, o.DataDir)
		c.etcd = etcd
		return etcd, filepath.Join(o.DataDir, "pki"), err
	case len(o.EtcdServers) > 0:
		etcd := apiserver.Etcd{Servers: o.EtcdServers, CAFile: o.EtcdCAFile, CertFile: o.EtcdCertFile, KeyFile: o.EtcdKeyFile}
		return etcd, filepath.Join(o.StateDir, "pki"), etcd.Check(ctx)
	default:
		return apiserver.Memory{Worlds: store.New(store.Options{})}, filepath.Join(o.StateDir, "pki"), nil
	}
}

// startParts builds the controllers and makes the kinds known while the API server
// is still at its post-start work, then makes the nodes.
func (c *Cluster) startParts(ctx, workCtx context.Context, work *sync.WaitGroup, set *stage.Set, pki string) error {
	list := c.options.Controllers
	pods, err := podcache.New(c.server.RESTConfig("rehearse:pods"))
	if err != nil {
		return err
	}
	work.Go(func() { pods.Run(workCtx) })
	build, _ := errgroup.WithContext(ctx)
	known := make(chan struct{})
	build.Go(func() error {
		defer close(known)
		return ensureKinds(ctx, c.server.RESTConfig("rehearse:kinds"), list)
	})
	run := func(start func() (func(context.Context), error)) {
		build.Go(func() error {
			part, err := start()
			if err == nil {
				work.Go(func() { part(workCtx) })
			}
			return err
		})
	}
	if upstream := upstreamOnly(list); len(upstream) > 0 {
		run(func() (func(context.Context), error) {
			part, err := startControllers(workCtx, c.server.RESTConfig("system:kube-controller-manager"), pods, upstream, pki)
			return func(ctx context.Context) {
				// The garbage collector looks for kinds when it begins and every 30 s. What is left
				// by an owner of a kind that it does not know it never finds.
				<-known
				part(ctx)
			}, err
		})
	}
	if picked(list, Scheduler) {
		run(func() (func(context.Context), error) {
			return startScheduler(workCtx, c.server.RESTConfig("system:kube-scheduler"), pods)
		})
	}
	if jobsPicked(list) {
		run(func() (func(context.Context), error) {
			return startJobs(c.server.RESTConfig("rehearse:job"), pods, c.metrics)
		})
	}
	if picked(withoutAlias(list), CloneSet) {
		run(func() (func(context.Context), error) {
			return startCloneSets(c.server.RESTConfig("rehearse:cloneset"), pods, c.metrics)
		})
	}
	if picked(list, StageController) {
		run(func() (func(context.Context), error) {
			return startStages(c.server.RESTConfig("rehearse:stage"), set, pods, c.metrics)
		})
	}
	if err := c.server.Ready(ctx); err != nil {
		return errors.Join(err, build.Wait())
	}
	if err := build.Wait(); err != nil {
		return err
	}
	if c.cert, c.key, err = c.server.ClientCertificate("rehearse-admin", "system:masters"); err != nil {
		return err
	}
	return ensureNodes(ctx, c.server.RESTConfig("rehearse:nodes"), c.options.Nodes)
}

// watchOver ends the cluster when one of its parts can no longer go on.
func (c *Cluster) watchOver() {
	var failed <-chan error
	if c.etcd != nil {
		failed = c.etcd.Failed()
	}
	select {
	case err := <-failed:
		c.fail(fmt.Errorf("the embedded etcd stopped: %w; what was acknowledged is in %s", err, c.options.DataDir))
	case <-c.server.Done():
		c.fail(c.server.Err())
	case <-c.done:
		return
	}
	c.stop()
}

func (c *Cluster) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

func (c *Cluster) closeEtcd() {
	if c.etcd != nil {
		c.etcd.Close()
	}
}

// URL is where the API answers.
func (c *Cluster) URL() string { return c.server.URL() }

// Kubeconfig holds one cluster, user and context, all named rehearse-NAME, with
// the administrator's client certificate.
func (c *Cluster) Kubeconfig() *clientcmdapi.Config {
	name := "rehearse-" + c.options.Name
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.server.CA()}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: c.cert, ClientKeyData: c.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return config
}

// RESTConfig is the administrator's client through the in-process door.
func (c *Cluster) RESTConfig() *rest.Config { return c.server.RESTConfig("rehearse-admin") }

// Done is closed when the cluster has ended, by Stop or by itself.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err says why the cluster ended by itself; nil otherwise. It is valid after Done.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stop ends the cluster and waits until everything has ended.
func (c *Cluster) Stop() {
	c.stop()
	<-c.done
}
