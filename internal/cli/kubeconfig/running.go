package kubeconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// dialTimeout is how long the server of an entry may take to answer. It is on this machine, which may be busy.
const dialTimeout = 10 * time.Second

// Running returns the server of the cluster called name, and the file with its entry, if it runs: it answers with a certificate that the authority of the
// entry has signed, so it is no other program that uses the port. It returns "" otherwise, and for the caller's own server: the authority of a cluster with a
// data directory outlives its process. If the caller has claimed the name, such a cluster has another state directory.
func (t Target) Running(ctx context.Context, name, own string) (server, file string) {
	for _, f := range t.Files {
		config, err := clientcmd.LoadFromFile(f)
		if err != nil {
			continue // Check reports it
		}
		if c := config.Clusters[name]; c != nil && c.Server != own && answers(ctx, c) {
			return c.Server, f
		}
	}
	return "", ""
}

// answers reports whether the server of a cluster accepts a connection.
func answers(ctx context.Context, c *clientcmdapi.Cluster) bool {
	u, err := url.Parse(c.Server)
	authorities := x509.NewCertPool()
	if err != nil || !authorities.AppendCertsFromPEM(c.CertificateAuthorityData) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{RootCAs: authorities, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), u.Port()))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
