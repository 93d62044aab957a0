package apiserver

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// Validity of the certificates. Serving and client certificates are created at each start; the authorities
// and the service account key are kept.
const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	leafValidity      = 365 * 24 * time.Hour
)

// pki is the directory of one cluster's keys. They are files because upstream's options take file names and
// because users may want to read them.
type pki struct{ dir string }

func (p pki) path(name string) string { return filepath.Join(p.dir, name) }

// authority is a certificate authority with its key.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// credentials is a certificate and its key, PEM encoded.
type credentials struct{ cert, key []byte }

// ensure creates the missing files: the cluster's CA (ca), the front proxy's CA (front-proxy-ca) with its
// client (front-proxy-client), the serving certificate (server), the certificate with which the API server connects to
// kubelets of other processes (apiserver-kubelet-client), and the service account key (sa.key).
func (p pki) ensure(hosts []string, ips []net.IP) (ca *authority, err error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	if ca, err = p.authority("ca", "rehearse-ca"); err != nil {
		return nil, err
	}
	front, err := p.authority("front-proxy-ca", "rehearse-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	proxy, err := front.issue(pkix.Name{CommonName: "front-proxy-client"}, x509.ExtKeyUsageClientAuth, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := p.write("front-proxy-client", proxy); err != nil {
		return nil, err
	}
	server, err := ca.issue(pkix.Name{CommonName: "kube-apiserver"}, x509.ExtKeyUsageServerAuth, hosts, ips)
	if err != nil {
		return nil, err
	}
	if err := p.write("server", server); err != nil {
		return nil, err
	}
	toKubelets, err := ca.issue(pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}, x509.ExtKeyUsageClientAuth, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := p.write("apiserver-kubelet-client", toKubelets); err != nil {
		return nil, err
	}
	return ca, p.serviceAccountKey()
}

func (p pki) write(name string, c credentials) error {
	if err := writeFile(p.path(name+".key"), c.key); err != nil {
		return err
	}
	return writeFile(p.path(name+".crt"), c.cert)
}

// authority reads NAME.crt and NAME.key, or creates them if neither exists.
func (p pki) authority(name, commonName string) (*authority, error) {
	certPEM, certErr := os.ReadFile(p.path(name + ".crt"))
	keyPEM, keyErr := os.ReadFile(p.path(name + ".key"))
	if errors.Is(certErr, fs.ErrNotExist) {
		return p.newAuthority(name, commonName)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, p.damaged(name+".crt", errors.New("no PEM block"))
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, p.damaged(name+".crt", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, p.damaged(name+".key", err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, p.damaged(name+".key", fmt.Errorf("a %T cannot sign", parsed))
	}
	return &authority{cert: cert, key: key, pem: certPEM}, nil
}

func (p pki) damaged(name string, err error) error {
	return fmt.Errorf("%s is damaged (%w); remove %s, and the next start creates new certificates", p.path(name), err, p.dir)
}

func (p pki) newAuthority(name, commonName string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: commonName}, authorityValidity)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	c, err := encode(der, key)
	if err != nil {
		return nil, err
	}
	if err := p.write(name, c); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key, pem: c.cert}, err
}

// issue creates a certificate signed by the authority.
func (a *authority) issue(name pkix.Name, usage x509.ExtKeyUsage, hosts []string, ips []net.IP) (credentials, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	template := certificate(name, leafValidity)
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.DNSNames, template.IPAddresses = hosts, ips
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return credentials{}, err
	}
	return encode(der, key)
}

func certificate(name pkix.Name, validity time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err) // crypto/rand does not fail on a working system (Go 1.24)
	}
	now := time.Now().UTC()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      name,
		NotBefore:    now.Add(-5 * time.Minute), // a clock that is slightly behind must not reject it
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func encode(der []byte, key crypto.Signer) (credentials, error) {
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return credentials{}, err
	}
	return credentials{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: keyPEM}, nil
}

// serviceAccountKey creates the key that signs service account tokens, once.
func (p pki) serviceAccountKey() error {
	name := p.path("sa.key")
	if data, err := os.ReadFile(name); err == nil {
		if _, err := keyutil.ParsePrivateKeyPEM(data); err != nil {
			return p.damaged("sa.key", err)
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return writeFile(name, data)
}

// writeFile replaces a file atomically (mode 0600): a full disk or a kill leaves the old one.
func writeFile(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
