package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clientcache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// All cases share the cluster, a client, and caches.
var (
	api      client.Client
	caches   cache.Cache
	happened = &notifier{next: make(chan struct{})}
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Cases wait most of the time, so more of them run concurrently than there are processors.
	if err := flag.Set("test.parallel", "30"); err != nil {
		panic(err)
	}
	apiserver.Quiet()
	ctrl.SetLogger(logr.Discard())
	os.Exit(inCluster(m.Run))
}

// inCluster runs tests while the cluster runs.
func inCluster(run func() int) int {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{
		Name: "e2e", StateDir: dir, Nodes: 3,
		Controllers: []string{
			cluster.StageController, cluster.Scheduler, cluster.CloneSet, "serviceaccount-controller", "garbage-collector-controller",
			"node-lifecycle-controller", "persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
		},
		StageFiles: []string{"builtin:node-fast", "builtin:node-heartbeat", "builtin:pod-general", "builtin:volume-fast", "testdata/kubelet.yaml"},
	})
	if err != nil {
		return failed(err)
	}
	defer c.Stop()
	defer cancel()
	if err := connect(ctx, c); err != nil {
		return failed(err)
	}
	return run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// connect sets api and caches.
func connect(ctx context.Context, c *cluster.Cluster) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return err
	}
	config := c.RESTConfig()
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// The kinds are registered here: discovery shows those of a definition some time after it is served.
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Pod", "PersistentVolumeClaim", "ServiceAccount"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(v1beta1.GroupVersion.WithKind("CloneSet"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(storagev1.SchemeGroupVersion.WithKind("StorageClass"), meta.RESTScopeRoot)
	var err error
	if api, err = client.New(config, client.Options{Scheme: scheme, Mapper: mapper}); err != nil {
		return err
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "simulated"}, Provisioner: "rehearse-k8s.github.io/volume"}
	if err := api.Create(ctx, class); err != nil {
		return err
	}
	if caches, err = cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper}); err != nil {
		return err
	}
	notify := func(any) { happened.notify() }
	for _, o := range []client.Object{&v1beta1.CloneSet{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.ServiceAccount{}} {
		informer, err := caches.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(clientcache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, o any) { notify(o) }, DeleteFunc: notify,
		}); err != nil {
			return err
		}
	}
	go func() {
		if err := caches.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if !caches.WaitForCacheSync(ctx) {
		return fmt.Errorf("the caches are not synced")
	}
	return nil
}
