package apiserver

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericfilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/client-go/kubernetes"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
)

// newServers creates upstream's three servers, in the order of app.CreateServerChain of kube-apiserver: the server of custom
// resources, the main server, which passes on what it does not serve to the first, and the aggregator, at which requests
// enter. It replaces that function because the main server gets our typeConverter and openAPI, for which upstream has no option.
// It is a variable for the test that compares both.
var newServers = func(config app.CompletedConfig) (*aggregatorapiserver.APIAggregator, error) {
	notFound := notfoundhandler.New(config.KubeAPIs.ControlPlane.Generic.Serializer, genericfilters.NoMuxAndDiscoveryIncompleteKey)
	extensions, err := config.ApiExtensions.New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, err
	}
	main, err := newMainServer(config.KubeAPIs, extensions.GenericAPIServer)
	if err != nil {
		return nil, err
	}
	crds := config.ApiExtensions.GenericConfig.MergedResourceConfig.ResourceEnabled(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	return controlplaneapiserver.CreateAggregatorServer(config.Aggregator, main, extensions.Informers.Apiextensions().V1().CustomResourceDefinitions(), crds, priorities())
}

// newMainServer creates the server of the built-in resources, as controlplane.CompletedConfig.New does.
func newMainServer(c controlplane.CompletedConfig, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	c.ControlPlane.Generic.SkipOpenAPIInstallation = true // see openAPI
	plane, err := c.ControlPlane.New(controlplaneapiserver.KubeAPIServer, next)
	if err != nil {
		return nil, err
	}
	server := plane.GenericAPIServer
	client, err := kubernetes.NewForConfig(c.ControlPlane.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	providers, err := c.StorageProviders(client)
	if err != nil {
		return nil, err
	}
	var installed groups
	for i, p := range providers {
		providers[i] = installed.note(p)
	}
	if err := plane.InstallAPIs(providers...); err != nil {
		return nil, err
	}
	if err := installed.reinstall(server, c.ControlPlane.Generic.Config); err != nil {
		return nil, err
	}
	newOpenAPI(server.Handler.GoRestfulContainer, c.ControlPlane.Generic.OpenAPIConfig, c.ControlPlane.Generic.OpenAPIV3Config).install(server.Handler.NonGoRestfulMux)
	_, port, err := c.ControlPlane.Generic.SecureServing.HostPort()
	if err != nil {
		return nil, fmt.Errorf("the port of the Service kubernetes: %w", err)
	}
	service := kubernetesservice.New(kubernetesservice.Config{
		PublicIP: c.ControlPlane.Generic.PublicAddress, PublicServicePort: port,
		EndpointReconciler: c.Extra.EndpointReconcilerConfig.Reconciler, EndpointInterval: c.Extra.EndpointReconcilerConfig.Interval,
		ServiceIP: c.Extra.APIServerServiceIP, ServicePort: c.Extra.APIServerServicePort, KubernetesServiceNodePort: c.Extra.KubernetesServiceNodePort,
	}, client, c.ControlPlane.VersionedInformers.Core().V1().Services())
	server.AddPostStartHookOrDie("bootstrap-controller", func(hook genericapiserver.PostStartHookContext) error {
		service.Start(hook.Done())
		return nil
	})
	server.AddPreShutdownHookOrDie("stop-kubernetes-service-controller", func() error {
		service.Stop()
		return nil
	})
	server.AddPostStartHookOrDie("start-kubernetes-service-cidr-controller", func(hook genericapiserver.PostStartHookContext) error {
		defaultservicecidr.NewController(c.Extra.ServiceIPRange, c.Extra.SecondaryServiceIPRange, client).Start(hook)
		return nil
	})
	return server, nil
}

// priorities are the priorities of the API groups of the main server in discovery, as in kube-apiserver.
func priorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	all := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	for group, p := range map[string]struct {
		group    int32
		versions map[string]int32
	}{
		"apps":              {17800, map[string]int32{"v1": 15}},
		"autoscaling":       {17500, map[string]int32{"v1": 15, "v2": 30}},
		"batch":             {17400, map[string]int32{"v1": 15}},
		"networking.k8s.io": {17200, map[string]int32{"v1": 15, "v1beta1": 9}},
		"policy":            {17100, map[string]int32{"v1": 15}},
		"storage.k8s.io":    {16800, map[string]int32{"v1": 15, "v1beta1": 9, "v1alpha1": 1}},
		"scheduling.k8s.io": {16600, map[string]int32{"v1": 15, "v1alpha2": 2}},
		"node.k8s.io":       {16300, map[string]int32{"v1": 15}},
		"resource.k8s.io":   {16200, map[string]int32{"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}},
	} {
		for v, priority := range p.versions {
			all[schema.GroupVersion{Group: group, Version: v}] = controlplaneapiserver.APIServicePriority{Group: p.group, Version: priority}
		}
	}
	return all
}
