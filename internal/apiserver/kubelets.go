package apiserver

import (
	"context"
	"fmt"
	"net"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// dialTimeout is for addresses that were made up, where nobody says no.
const dialTimeout = 5 * time.Second

// dialKubelets is how logs, exec, attach and port-forward reach a node. Simulated nodes have
// no kubelet; an error of the resolver or of TCP alone would not tell.
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
