package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmconfig "k8s.io/kubernetes/cmd/kube-controller-manager/app/config"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	serviceaccounttoken "k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// controllerFlags are the flags for kube-controller-manager: no leader election, because there is one instance, and no HTTP
// server of its own.
func controllerFlags(list []string, dir string, more []string) []string {
	file := func(name string) string { return filepath.Join(dir, name) }
	return append([]string{
		"--controllers=" + strings.Join(list, ","),
		"--leader-elect=false",
		"--secure-port=0",
		"--allocate-node-cidrs=false",
		"--root-ca-file=" + file("ca.crt"),
		"--service-account-private-key-file=" + file("sa.key"),
		"--cluster-signing-cert-file=" + file("ca.crt"),
		"--cluster-signing-key-file=" + file("ca.key"),
	}, more...)
}

// startControllers builds kube-controller-manager's controllers and returns the
// function that runs them until its context ends. It does what upstream's
// kcm.Run does around them, without the parts that belong to a process of its
// own (leader election, HTTP server, process-wide registration).
func startControllers(ctx context.Context, config *rest.Config, pods *podcache.Cache, list []string, dir string, flags []string) (func(context.Context), error) {
	settings, err := controllerSettings(list, dir, flags)
	if err != nil {
		return nil, err
	}
	c, err := controllerContext(ctx, config, pods, settings)
	if err != nil {
		return nil, err
	}
	descriptors := kcm.NewControllerDescriptors()
	// Upstream starts this one separately too: it signs the tokens of the others.
	delete(descriptors, names.ServiceAccountTokenController)
	controllers, err := kcm.BuildControllers(ctx, c, descriptors, nil, noHealthz{})
	if err != nil {
		return nil, fmt.Errorf("kube-controller-manager: %w", err)
	}
	if picked(list, names.ServiceAccountTokenController) {
		tokens, err := tokenController(ctx, c, config)
		if err != nil {
			return nil, err
		}
		controllers = append(controllers, tokens)
	}
	return func(ctx context.Context) {
		c.InformerFactory.Start(ctx.Done())
		c.ObjectOrMetadataInformerFactory.Start(ctx.Done())
		close(c.InformersStarted)
		defer c.InformerFactory.Shutdown()
		kcm.RunControllers(ctx, c, controllers, 0, settings.ControllerShutdownTimeout)
	}, nil
}

// controllerSettings reads the flags into upstream's configuration.
func controllerSettings(list []string, dir string, flags []string) (*kcmconfig.Config, error) {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	known, off, aliases := kcm.KnownControllers(), kcm.ControllersDisabledByDefault(), kcm.ControllerAliases()
	fs := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	for _, f := range o.Flags(known, off, aliases).FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(controllerFlags(list, dir, flags)); err != nil {
		return nil, err
	}
	if err := o.Validate(known, off, aliases); err != nil {
		return nil, err
	}
	c := &kcmconfig.Config{ComponentGlobalsRegistry: o.ComponentGlobalsRegistry}
	return c, o.ApplyTo(c, known, off, aliases)
}

// controllerContext is what upstream's controllers share: clients, informers,
// the mapper from resources to kinds.
func controllerContext(ctx context.Context, config *rest.Config, pods *podcache.Cache, settings *kcmconfig.Config) (kcm.ControllerContext, error) {
	builder := ownerVersions{clientbuilder.SimpleControllerClientBuilder{ClientConfig: config}}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "shared-informers"))
	if err != nil {
		return kcm.ControllerContext{}, err
	}
	// The metadata client reads protobuf and JSON of its own kinds only.
	metadataClient, err := metadata.NewForConfig(metadata.ConfigFor(rest.AddUserAgent(config, "metadata-informers")))
	if err != nil {
		return kcm.ControllerContext{}, err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return kcm.ControllerContext{}, err
	}
	// Each controller has a different resync period of several hours, as upstream.
	minimum := settings.ComponentConfig.Generic.MinResyncPeriod.Duration
	resync := func() time.Duration { return time.Duration(float64(minimum) * (1 + rand.Float64())) }
	typed := informers.NewSharedInformerFactoryWithOptions(pods.Client(client, "", nil), resync(), informers.WithTransform(reconcile.DropManagedFields))
	typed.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return podcache.RememberIndex(coreinformers.NewPodInformer(client, metav1.NamespaceAll, resync, indexers), controller.PodNodeNameKeyIndex)
	})
	untyped := metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, resync(), metadatainformer.WithTransform(reconcile.DropManagedFields))
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient))
	go wait.Until(mapper.Reset, 30*time.Second, ctx.Done())

	c := kcm.ControllerContext{
		ClientBuilder:                   builder,
		InformerFactory:                 typed,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(typed, untyped),
		ComponentConfig:                 settings.ComponentConfig,
		RESTMapper:                      mapper,
		InformersStarted:                make(chan struct{}),
		ResyncPeriod:                    resync,
		ControllerManagerMetrics:        controllersmetrics.NewControllerManagerMetrics("kube-controller-manager"),
	}
	controllersmetrics.Register()
	if c.IsControllerEnabled(kcm.NewControllerDescriptors()[names.GarbageCollectorController]) {
		ignored := map[schema.GroupResource]struct{}{}
		for _, r := range c.ComponentConfig.GarbageCollectorController.GCIgnoredResources {
			ignored[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = struct{}{}
		}
		c.GraphBuilder = garbagecollector.NewDependencyGraphBuilder(ctx, metadataClient, mapper, ignored, c.ObjectOrMetadataInformerFactory, c.InformersStarted)
	}
	return c, nil
}

// noHealthz ignores the health checks of controllers, because there is no HTTP server for them.
type noHealthz struct{}

func (noHealthz) AddHealthChecker(...healthz.HealthChecker) {}

// tokens runs the controller that fills Secrets of the service account token type, for users who still create them.
type tokens struct {
	controller *serviceaccount.TokensController
	workers    int
}

func (t tokens) Name() string            { return names.ServiceAccountTokenController }
func (t tokens) Run(ctx context.Context) { t.controller.Run(ctx, t.workers) }

func tokenController(ctx context.Context, c kcm.ControllerContext, config *rest.Config) (kcm.Controller, error) {
	key, err := keyutil.PrivateKeyFromFile(c.ComponentConfig.SAController.ServiceAccountKeyFile)
	if err != nil {
		return nil, err
	}
	generator, err := serviceaccounttoken.JWTTokenGenerator(serviceaccounttoken.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "tokens-controller"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(c.ComponentConfig.SAController.RootCAFile)
	if err != nil {
		return nil, err
	}
	t, err := serviceaccount.NewTokensController(klog.FromContext(ctx), c.InformerFactory.Core().V1().ServiceAccounts(), c.InformerFactory.Core().V1().Secrets(), client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: ca})
	if err != nil {
		return nil, err
	}
	return tokens{t, int(c.ComponentConfig.SAController.ConcurrentSATokenSyncs)}, nil
}
