package apiserver

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	corelisters "k8s.io/client-go/listers/core/v1"
)

// LocalPortAnnotation, on a Service, names the port of this machine on which the process that serves the
// Service listens. Webhook configurations, CRD conversions and APIServices that refer to the Service are then
// sent to 127.0.0.1:PORT, with the Service's name in TLS as in a real cluster.
//
// The value is one port ("9443") for every port of the Service, or a list of SERVICEPORT=LOCALPORT
// ("443=9443,8443=9444").
const LocalPortAnnotation = "rehearse-k8s.github.io/local-port"

// serviceResolver resolves the Service reference of a webhook or an APIService to an address. Pods here are
// simulated and do not listen, so a connection to a cluster IP would time out. A Service without the
// annotation is rejected at once; the error names the annotation.
type serviceResolver struct {
	services corelisters.ServiceLister
	loopback *url.URL // the address of kubernetes.default: this server
}

// ResolveEndpoint implements the aggregator's and the webhooks' ServiceResolver.
func (r serviceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if namespace == "default" && name == "kubernetes" && port == 443 {
		return r.loopback, nil
	}
	service, err := r.services.Services(namespace).Get(name)
	if err != nil {
		return nil, err
	}
	value, ok := service.Annotations[LocalPortAnnotation]
	if !ok {
		return nil, fmt.Errorf("service %s/%s: pods are simulated here and answer no requests; run its server on this machine and annotate the service with %s=PORT", namespace, name, LocalPortAnnotation)
	}
	local, err := localPort(value, port)
	if err != nil {
		return nil, fmt.Errorf("service %s/%s: annotation %s=%q: %w", namespace, name, LocalPortAnnotation, value, err)
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(local))}, nil
}

// localPort reads the annotation's value for one port of the service.
func localPort(value string, port int32) (int, error) {
	for _, part := range strings.Split(value, ",") {
		from, to, mapped := strings.Cut(strings.TrimSpace(part), "=")
		if !mapped {
			to = from
		} else if from != strconv.Itoa(int(port)) {
			continue
		}
		n, err := strconv.Atoi(to)
		if err != nil || n < 1 || n > 65535 {
			return 0, fmt.Errorf("%q is not a port (1-65535)", to)
		}
		return n, nil
	}
	return 0, fmt.Errorf("no entry for port %d", port)
}
