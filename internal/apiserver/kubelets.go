package apiserver

import (
	"context"
	"fmt"
	"net"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// dialTimeout limits connections to invented addresses, where no host rejects them.
const dialTimeout = 5 * time.Second

// dialKubelets rejects connections for logs, exec, attach and port-forward to a node: simulated nodes have no
// kubelet, and an error of the resolver or of TCP would not say so.
func dialKubelets(egressselector.NetworkContext) (utilnet.DialFunc, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("no kubelet answers at %s (%w): pods on simulated nodes have no containers that logs, exec, attach or port-forward could reach", address, err)
		}
		return conn, nil
	}, nil
}
