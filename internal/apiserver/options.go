package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
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
}

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
func unlimited(c *rest.Config) *rest.Config {
	c.QPS, c.Burst = -1, 0
	return c
}
