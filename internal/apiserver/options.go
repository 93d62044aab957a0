package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
)

// KubernetesVersion is the upstream release whose code this package runs.
const KubernetesVersion = "v1.36.3"

// Options are the options of one API server. The zero value of a field is its default; Dir and Backend are required.
type Options struct {
	// Dir is the directory of the certificates and the service account key, created with mode 0700. Existing files are
	// used again, so that tokens and kubeconfigs stay valid after a restart.
	Dir string
	// Backend stores the objects: Memory, Etcd or a started EmbeddedEtcd.
	Backend Backend
	// BindAddress is the IP address of the TLS listener. Default: 127.0.0.1.
	BindAddress string
	// Port is the port of the TLS listener. 0: a free one.
	Port int
	// Version is our own version, added to the reported Kubernetes version as build metadata
	// (v1.36.3+rehearse.VERSION).
	Version string
	// WatchCache adds upstream's watch cache to the backend, as in a production kube-apiserver. Clusters of
	// users need it; a world in virtual time does not.
	WatchCache bool
	// Runs allows requests in the worlds of runs (store.WithRun). It requires a Memory backend without
	// WatchCache, and omits the admission plugins that read only the process's world.
	Runs bool
	// ServiceIPRange is the IPv4 CIDR of ClusterIPs; default 10.96.0.0/16.
	ServiceIPRange string
	// Conversions answer, in process, for the Services that definitions of custom resources name as their
	// conversion webhooks. The Services need not exist.
	Conversions map[types.NamespacedName]http.Handler
	// Listener, if set, is used instead of BindAddress and Port.
	Listener net.Listener
	// ResourceMetrics are the storages of the resources of metrics.k8s.io/v1beta1. nil: the server does not serve the group.
	ResourceMetrics map[string]rest.Storage
	// Pods is the client from which the server's own informer reads pods, if the process has all of them in a cache. The pods must have no
	// managed fields. The server is ready when it has read them. Start calls Pods after it has set the feature gates, and returns its error. nil: the
	// server watches itself over TLS, as upstream does.
	Pods func() (kubernetes.Interface, error)
	// Settings are further settings of kube-apiserver.
	Settings Settings
}

// Settings are settings of kube-apiserver, in the syntax of its flags. The zero value of a field is upstream's default.
type Settings struct {
	// FeatureGates are feature gates, each as in "Name=true". They apply to the whole process, and only to the first
	// server that it starts.
	FeatureGates []string
	// RuntimeConfig switches API groups, versions and resources on and off, as in "resource.k8s.io/v1beta1=true".
	RuntimeConfig []string
	// AdmissionPlugins enables ("NAME") and disables ("-NAME") admission plugins.
	AdmissionPlugins []string
	// AuditPolicyFile is the file of an audit policy, and AuditLogFile the file that the events are appended to; "-" is the
	// standard output.
	AuditPolicyFile, AuditLogFile string
}

// flags are the settings as flags of kube-apiserver.
func (s *Settings) flags() []string {
	// The lease by which several API servers find each other uses an etcd client, and there is one server.
	gates := append([]string{"UnknownVersionInteroperabilityProxy=false"}, s.FeatureGates...)
	all := []string{"--feature-gates=" + strings.Join(gates, ",")}
	add := func(flag string, values ...string) {
		if value := strings.Join(values, ","); value != "" {
			all = append(all, flag+"="+value)
		}
	}
	var enabled, disabled []string
	for _, name := range s.AdmissionPlugins {
		if off, ok := strings.CutPrefix(name, "-"); ok {
			disabled = append(disabled, off)
		} else {
			enabled = append(enabled, name)
		}
	}
	add("--runtime-config", s.RuntimeConfig...)
	add("--enable-admission-plugins", enabled...)
	add("--disable-admission-plugins", disabled...)
	add("--audit-policy-file", s.AuditPolicyFile)
	add("--audit-log-path", s.AuditLogFile)
	return all
}

// SettingError reports an invalid value of [Settings] or of another option that kube-apiserver validates.
type SettingError struct{ err error }

func (e *SettingError) Error() string { return "kube-apiserver: " + e.err.Error() }

// Unwrap returns the error of kube-apiserver.
func (e *SettingError) Unwrap() error { return e.err }

func (o *Options) complete() error {
	if o.Dir == "" {
		return errors.New("apiserver: Options.Dir is empty; name a directory for the certificates")
	}
	if o.Backend == nil {
		return errors.New("apiserver: Options.Backend is nil; use Memory, Etcd or StartEmbeddedEtcd")
	}
	if _, memory := o.Backend.(Memory); o.Runs && (!memory || o.WatchCache) {
		return errors.New("apiserver: Options.Runs requires a Memory backend without WatchCache, which holds only one world")
	}
	if o.BindAddress == "" {
		o.BindAddress = "127.0.0.1"
	}
	if net.ParseIP(o.BindAddress) == nil {
		return fmt.Errorf("bind address %q is not an IP address", o.BindAddress)
	}
	if o.ServiceIPRange == "" {
		o.ServiceIPRange = "10.96.0.0/16"
	}
	return nil
}

// listen opens the TLS listener's socket before anything else is built, so that a port in use is reported at
// once, in one line.
func (o *Options) listen() (net.Listener, error) {
	if o.Listener != nil {
		return o.Listener, nil
	}
	address := net.JoinHostPort(o.BindAddress, fmt.Sprint(o.Port))
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	if strings.Contains(err.Error(), "address already in use") {
		return nil, fmt.Errorf("port %d on %s is in use; choose another one with --port, or leave it out for a free one", o.Port, o.BindAddress)
	}
	return nil, fmt.Errorf("listen on %s: %w", address, err)
}

// unlimited removes client-side rate limits: our own components share one process with the server, which has
// its own fairness.
func unlimited(c *clientrest.Config) *clientrest.Config {
	c.QPS, c.Burst = -1, 0
	return c
}
