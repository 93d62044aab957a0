package apiserver

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	extensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	globals "k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/component-base/compatibility"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	kubeapiserveradmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// flags are the kube-apiserver flags of every server here. All other flags have upstream's defaults.
func flags(o Options, p pki) []string {
	return []string{
		"--authorization-mode=RBAC",
		"--anonymous-auth=false",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + o.ServiceIPRange,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.path("sa.key"),
		"--service-account-signing-key-file=" + p.path("sa.key"),
		"--client-ca-file=" + p.path("ca.crt"),
		"--kubelet-client-certificate=" + p.path("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + p.path("apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname", // as kubeadm: simulated host names resolve nowhere
		"--tls-cert-file=" + p.path("server.crt"),
		"--tls-private-key-file=" + p.path("server.key"),
		"--requestheader-client-ca-file=" + p.path("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.path("front-proxy-client.crt"),
		"--proxy-client-key-file=" + p.path("front-proxy-client.key"),
		// Addresses of endpoints must not be loopback addresses, and no other server shares the kubernetes
		// Service.
		"--endpoint-reconciler-type=none",
		"--advertise-address=" + advertised(o.BindAddress),
		// The proxy of a node resolves its host name, and no resolver knows those of simulated nodes.
		"--kubelet-preferred-address-types=InternalIP,Hostname,InternalDNS,ExternalIP,ExternalDNS",
		"--enable-priority-and-fairness=true",
		"--profiling=true",
	}
}

// advertised is the address that the server advertises. Upstream rejects a loopback address where it would be
// published; nothing publishes it here, so an address of the documentation range (RFC 5737) is used.
func advertised(bind string) string {
	ip := net.ParseIP(bind)
	if ip.IsLoopback() || ip.IsUnspecified() || ip.To4() == nil {
		return "192.0.2.1"
	}
	return bind
}

// setGates applies the gates once, because upstream keeps them in one registry per process.
var setGates = sync.OnceValue(func() error {
	return globals.DefaultComponentGlobalsRegistry.Set()
})

// completing allows one server of the process at a time to read its flags: upstream keeps some of their
// values (feature gates, emulated versions) in that registry.
var completing sync.Mutex

// completedOptions builds upstream's options from our own.
func completedOptions(ctx context.Context, o Options, p pki, l net.Listener, d *handlers) (options.CompletedOptions, error) {
	completing.Lock()
	defer completing.Unlock()
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, f := range s.Flags().FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(append(flags(o, p), o.Settings.flags()...)); err != nil {
		return options.CompletedOptions{}, &SettingError{err}
	}
	if err := setGates(); err != nil {
		return options.CompletedOptions{}, err
	}
	s.SecureServing.Listener = l
	s.SecureServing.BindAddress = net.ParseIP(o.BindAddress)
	s.SecureServing.BindPort = l.Addr().(*net.TCPAddr).Port
	s.Etcd.EnableWatchCache = o.WatchCache
	o.Backend.prepare(s.Etcd)
	if o.Pods != nil {
		pods, err := o.Pods()
		if err == nil {
			err = readPodsFrom(pods, s.Authentication, d)
		}
		if err != nil {
			return options.CompletedOptions{}, err
		}
	}
	if o.Runs {
		useRunAdmission(s, o.Backend.(Memory).Worlds)
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return completed, &SettingError{err}
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return completed, &SettingError{errs[0]}
	}
	return completed, nil
}

// newConfig assembles upstream's three servers. It follows the order of kube-apiserver's own start
// (cmd/kube-apiserver/app.NewConfig), with our backend, version, handlers and service resolver.
func newConfig(o Options, opts options.CompletedOptions, d *handlers, working *workingFor, nodes *kubelets) (*app.Config, error) {
	schemes := []*runtime.Scheme{legacyscheme.Scheme, extensionsapiserver.Scheme, aggregatorscheme.Scheme}
	if o.ResourceMetrics != nil {
		schemes = append(schemes, metricsScheme)
	}
	generic, shared, storageFactory, err := controlplaneapiserver.BuildGenericConfig(
		opts.CompletedOptions,
		schemes,
		controlplane.DefaultAPIResourceConfigSource(),
		generatedopenapi.GetOpenAPIDefinitions,
	)
	if err != nil {
		return nil, err
	}
	generic.RESTOptionsGetter = o.Backend.getter(generic.RESTOptionsGetter, o.WatchCache)
	longRunning := generic.LongRunningFunc
	generic.LongRunningFunc = func(r *http.Request, info *request.RequestInfo) bool {
		return r.URL.Path == snapshot.StorePath || longRunning(r, info)
	}
	generic.EffectiveVersion = version{generic.EffectiveVersion, o.Version}
	generic.Authentication.Authenticator = &certificateCache{next: generic.Authentication.Authenticator}
	if _, theirs := o.Backend.(Etcd); !theirs {
		if err := bootstrapAtOnce(generic, d); err != nil {
			return nil, err
		}
	}
	if o.Runs {
		generic.DisabledPostStartHooks.Insert(selfHooks...)
		working.wrap(generic, d)
	}
	loopback, err := url.Parse(generic.LoopbackClientConfig.Host)
	if err != nil {
		return nil, err
	}
	resolver := serviceResolver{services: shared.Core().V1().Services().Lister(), loopback: loopback}

	admission, err := (&kubeapiserveradmission.Config{}).New()
	if err != nil {
		return nil, err
	}
	plane, initializers, err := controlplaneapiserver.CreateConfig(opts.CompletedOptions, generic, shared, storageFactory, resolver, admission)
	if err != nil {
		return nil, err
	}
	kube := kubeConfig(opts, *plane, nodes)
	wrapper := webhook.NewDefaultAuthenticationInfoResolverWrapper(plane.ProxyTransport, generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider)
	extensions, err := controlplaneapiserver.CreateAPIExtensionsConfig(*generic, shared, initializers, opts.CompletedOptions, opts.MasterCount, resolver, inProcessConversions(o.Conversions, wrapper))
	if err != nil {
		return nil, err
	}
	aggregator, err := controlplaneapiserver.CreateAggregatorConfig(*generic, opts.CompletedOptions, shared, resolver, plane.ProxyTransport, plane.PeerProxy, initializers)
	if err != nil {
		return nil, err
	}
	// Requests enter at the aggregator, which forwards them without further filters.
	d.open(&aggregator.GenericConfig.Config, o.Runs)
	// The two servers besides the main one create their own storage options.
	for _, g := range []*genericapiserver.Config{&extensions.GenericConfig.Config, &aggregator.GenericConfig.Config} {
		g.RESTOptionsGetter = o.Backend.getter(g.RESTOptionsGetter, o.WatchCache)
	}
	extensions.ExtraConfig.CRDRESTOptionsGetter = o.Backend.getter(extensions.ExtraConfig.CRDRESTOptionsGetter, o.WatchCache)
	return &app.Config{Options: opts, KubeAPIs: kube, ApiExtensions: extensions, Aggregator: aggregator}, nil
}

// kubeConfig is the configuration of the main server.
func kubeConfig(opts options.CompletedOptions, plane controlplaneapiserver.Config, nodes *kubelets) *controlplane.Config {
	capabilities.Setup(opts.AllowPrivileged, opts.MaxConnectionBytesPerSec)
	opts.KubeletConfig.Lookup = nodes.lookup
	return &controlplane.Config{ControlPlane: plane, Extra: controlplane.Extra{
		KubeletClientConfig:       opts.KubeletConfig,
		ServiceIPRange:            opts.PrimaryServiceClusterIPRange,
		APIServerServiceIP:        opts.APIServerServiceIP,
		SecondaryServiceIPRange:   opts.SecondaryServiceClusterIPRange,
		APIServerServicePort:      443,
		ServiceNodePortRange:      opts.ServiceNodePortRange,
		KubernetesServiceNodePort: opts.KubernetesServiceNodePort,
		EndpointReconcilerType:    reconcilers.Type(opts.EndpointReconcilerType),
		MasterCount:               opts.MasterCount,
	}}
}

// version reports the upstream release, with our own version as build metadata. Otherwise a Go build of the
// libraries reports v0.0.0-master, which no client can compare.
type version struct {
	compatibility.EffectiveVersion
	own string
}

// Info implements compatibility.EffectiveVersion; it is what /version shows.
func (v version) Info() *apiversion.Info {
	info := *v.EffectiveVersion.Info()
	info.GitVersion = KubernetesVersion
	if own := strings.TrimPrefix(v.own, "v"); own != "" {
		info.GitVersion += "+rehearse." + buildMetadata(own)
	}
	info.GitCommit, info.GitTreeState, info.BuildDate = "", "", "1970-01-01T00:00:00Z"
	return &info
}

// buildMetadata keeps the characters that semantic versions allow there ([0-9A-Za-z-.]).
func buildMetadata(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
}
