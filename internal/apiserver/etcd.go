package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/registry/generic"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// answerTimeout limits the wait for the first answer of an external etcd.
const answerTimeout = 5 * time.Second

// Etcd stores objects in an external etcd cluster.
type Etcd struct {
	// Servers are URLs, http, https or unix.
	Servers []string
	// CAFile, CertFile and KeyFile secure the connection; all may be empty.
	CAFile, CertFile, KeyFile string
	// Prefix is the prefix of every key; default /registry.
	Prefix string
}

// Check sends a request to the etcd cluster, so that a wrong address or certificate is reported at once in
// one line. Upstream's server would retry forever and report an exceeded deadline.
func (e Etcd) Check(ctx context.Context) error {
	servers := strings.Join(e.Servers, ", ")
	client, err := e.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if _, err = client.Get(ctx, "health"); err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", answerTimeout)
	}
	return fmt.Errorf("etcd at %s: %w; check --etcd-servers, and --etcd-cafile, --etcd-certfile, --etcd-keyfile if it requires TLS", servers, err)
}

// client returns a client for all servers. It connects when it is used.
func (e Etcd) client() (*clientv3.Client, error) {
	servers := strings.Join(e.Servers, ", ")
	info := transport.TLSInfo{CertFile: e.CertFile, KeyFile: e.KeyFile, TrustedCAFile: e.CAFile}
	config := clientv3.Config{Endpoints: e.Servers, DialTimeout: answerTimeout, Logger: zap.NewNop()}
	if e.CAFile != "" || e.CertFile != "" {
		tls, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("certificates for the etcd at %s: %w", servers, err)
		}
		config.TLS = tls
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", servers, err)
	}
	return client, nil
}

func (e Etcd) prepare(o *genericoptions.EtcdOptions) {
	t := &o.StorageConfig.Transport
	t.ServerList, t.TrustedCAFile, t.CertFile, t.KeyFile = e.Servers, e.CAFile, e.CertFile, e.KeyFile
	if e.Prefix != "" {
		o.StorageConfig.Prefix = e.Prefix
	}
}

func (e Etcd) getter(next generic.RESTOptionsGetter, _ bool) generic.RESTOptionsGetter {
	return etcdGetter{next}
}

func (e Etcd) run(context.Context) {}
