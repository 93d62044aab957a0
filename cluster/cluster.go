package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/nodepressure"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/resourcemetrics"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/stage"
)

// Cluster is a running cluster.
type Cluster struct {
	options Options
	server  *apiserver.Server
	etcd    *apiserver.EmbeddedEtcd // nil without Options.DataDir

	metrics   *metrics
	usage     *resourcemetrics.Source
	scheduler *schedulerconfig.KubeSchedulerConfiguration

	cert, key []byte // the administrator's
	stop      func()
	done      chan struct{}
	mu        sync.Mutex
	err       error
}

// Start starts a cluster and returns when its API server answers, its controllers run and its nodes exist. If it fails, it
// stops everything that it started. The error is one line, and a *UsageError if the value of an option is invalid.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	set, endpoints, err := loadFiles(o.StageFiles)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, done: make(chan struct{})}
	if c.scheduler, err = schedulerSettings(o.SchedulerConfigFile); err != nil {
		return nil, err
	}
	var content *snapshot.StoreReader
	if o.StoreFile != "" {
		var file io.Closer
		if content, file, err = openStoreFile(ctx, o.StoreFile); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	if c.metrics, err = serveMetrics(o.MetricsAddress); err != nil {
		return nil, err
	}
	backend, pki, err := c.openBackend(ctx)
	if err != nil {
		c.metrics.close()
		return nil, err
	}
	if err := apiserver.Load(ctx, backend, content); err != nil {
		c.metrics.close()
		c.closeEtcd()
		return nil, storeError(err, o)
	}
	pods := podcache.Unconnected()
	// The parts stop in the reverse order of their start: controllers before the API server, the API server before the
	// store. Therefore each has a context of its own, independent of the caller's.
	base := context.WithoutCancel(ctx)
	c.usage = resourcemetrics.New(resourcemetrics.Options{Rules: endpoints, Serves: stages.NodeFilter{}.Matches})
	c.server, err = apiserver.Start(base, apiserver.Options{
		Dir: pki, Backend: backend, BindAddress: o.BindAddress, Port: o.Port, Version: o.Version, WatchCache: true,
		Conversions: conversions(), ServiceIPRange: o.ServiceCIDR, ResourceMetrics: c.usage.Storages(),
		Pods: pods.Source,
		Settings: apiserver.Settings{
			FeatureGates: o.FeatureGates, RuntimeConfig: o.RuntimeConfig, AdmissionPlugins: o.AdmissionPlugins,
			AuditPolicyFile: o.AuditPolicyFile, AuditLogFile: o.AuditLogFile,
		},
	})
	if setting := (*apiserver.SettingError)(nil); errors.As(err, &setting) {
		err = &UsageError{setting.Error()}
	}
	if err != nil {
		c.metrics.close()
		c.closeEtcd()
		return nil, err
	}
	serveKubelets(c.server, endpoints, c.usage)
	workCtx, stopWork := context.WithCancel(base)
	// The API server is a reader of the pod cache too: it is not ready before the cache is, and reads from it until it has stopped.
	podsCtx, stopPods := context.WithCancel(base)
	var work, podsWork sync.WaitGroup
	c.stop = sync.OnceFunc(func() {
		stopWork()
		work.Wait()
		c.metrics.close()
		c.server.Stop()
		stopPods()
		podsWork.Wait()
		c.closeEtcd()
		close(c.done)
	})
	if err := connect(pods, backend, c.server); err != nil {
		c.stop()
		return nil, err
	}
	podsWork.Go(func() { pods.Run(podsCtx) })
	if err := c.startParts(ctx, workCtx, &work, set, pki, pods); err != nil {
		c.stop()
		return nil, err
	}
	go c.watchOver()
	return c, nil
}

// connect makes the pod cache read from the store if that is in this process, and otherwise from the server.
func connect(pods *podcache.Cache, backend apiserver.Backend, server *apiserver.Server) error {
	memory, ok := backend.(apiserver.Memory)
	if !ok {
		return pods.Connect(server.RESTConfig("rehearse:pods"))
	}
	stored, err := memory.Pods()
	if err != nil {
		return err
	}
	return pods.ConnectTo(stored)
}

// openBackend opens the store, and chooses the directory for the keys: with a data directory, which outlives the process, the
// certificates must outlive it too.
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
		return apiserver.Memory{Worlds: store.New(store.Options{ShareParts: true})}, filepath.Join(o.StateDir, "pki"), nil
	}
}

// startParts builds the controllers and installs the definitions of our kinds while the API server runs its post-start hooks,
// then creates the nodes. With Options.BeforeControllers, the controllers run after it.
func (c *Cluster) startParts(ctx, workCtx context.Context, work *sync.WaitGroup, set *stage.Set, pki string, pods *podcache.Cache) error {
	list := c.options.Controllers
	c.usage.Connect(c.server.RESTConfig("rehearse:usage"), pods)
	build, _ := errgroup.WithContext(ctx)
	known := make(chan struct{})
	build.Go(func() error {
		defer close(known)
		return ensureKinds(ctx, c.server.RESTConfig("rehearse:kinds"), list)
	})
	begin := make(chan struct{})
	if c.options.BeforeControllers == nil {
		close(begin)
	}
	run := func(start func() (func(context.Context), error)) {
		build.Go(func() error {
			part, err := start()
			if err == nil {
				work.Go(func() {
					select {
					case <-begin:
						part(workCtx)
					case <-workCtx.Done():
					}
				})
			}
			return err
		})
	}
	if upstream := upstreamOnly(list); len(upstream) > 0 {
		run(func() (func(context.Context), error) {
			part, err := startControllers(workCtx, c.server.RESTConfig("system:kube-controller-manager"), pods, upstream, pki, c.options.controllerManagerFlags())
			return func(ctx context.Context) {
				// The garbage collector discovers kinds when it starts and every 30 s. It never deletes dependents of an
				// owner whose kind it did not know when they lost the owner.
				<-known
				part(ctx)
			}, err
		})
	}
	if picked(list, Scheduler) {
		run(func() (func(context.Context), error) {
			return startScheduler(workCtx, c.server.RESTConfig("system:kube-scheduler"), pods, c.scheduler)
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
			return startStages(c.server.RESTConfig("rehearse:stage"), set, pods, c.metrics, c.options.NodeLeaseDuration)
		})
		run(func() (func(context.Context), error) {
			return nodepressure.New(c.server.RESTConfig("rehearse:node-pressure"), c.usage, nil)
		})
	}
	if err := c.server.Ready(ctx); err != nil {
		return errors.Join(err, build.Wait())
	}
	if err := build.Wait(); err != nil {
		return err
	}
	if c.options.BeforeControllers != nil {
		if err := c.options.BeforeControllers(ctx, c.RESTConfig()); err != nil {
			return err
		}
		close(begin)
	}
	var err error
	if c.cert, c.key, err = c.server.ClientCertificate("rehearse-admin", "system:masters"); err != nil {
		return err
	}
	return ensureNodes(ctx, c.server.RESTConfig("rehearse:nodes"), c.options.Nodes)
}

// watchOver stops the cluster when one of its parts fails.
func (c *Cluster) watchOver() {
	var failed <-chan error
	if c.etcd != nil {
		failed = c.etcd.Failed()
	}
	select {
	case err := <-failed:
		c.fail(fmt.Errorf("the embedded etcd stopped: %w; acknowledged writes are in %s", err, c.options.DataDir))
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

// URL is the URL of the API server.
func (c *Cluster) URL() string { return c.server.URL() }

// Kubeconfig returns a kubeconfig with one cluster, user and context, all named rehearse-NAME, and the administrator's client
// certificate.
func (c *Cluster) Kubeconfig() *clientcmdapi.Config {
	name := "rehearse-" + c.options.Name
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.server.CA()}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: c.cert, ClientKeyData: c.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return config
}

// RESTConfig returns the administrator's client configuration over the in-process transport, without a socket.
func (c *Cluster) RESTConfig() *rest.Config { return c.server.UserConfig("rehearse-admin") }

// Done is closed when the cluster has stopped, by Stop or because it failed.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err is the reason why the cluster failed, nil after Stop. It is valid after Done is closed.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stop stops the cluster and waits until all its parts have stopped.
func (c *Cluster) Stop() {
	c.stop()
	<-c.done
}
