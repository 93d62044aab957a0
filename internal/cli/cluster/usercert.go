package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// clockSkew is how far the clock of a client may be behind.
const clockSkew = 5 * time.Minute

// signClient creates a client certificate for a user, signed by the authority in a cluster's directory of keys. Certificate and
// key are PEM encoded.
func signClient(pki, user string, groups []string, validity time.Duration, now time.Time) (certificate, key []byte, err error) {
	authority, signer, err := readAuthority(pki)
	if err != nil {
		return nil, nil, err
	}
	until := now.Add(validity)
	if until.After(authority.NotAfter) {
		return nil, nil, fmt.Errorf("--expiration %s: the certificate authority is valid only until %s", validity, authority.NotAfter.Format(time.RFC3339))
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user, Organization: groups}, // as Kubernetes reads user and groups
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority, private.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, nil
}

// readAuthority reads ca.crt and ca.key.
func readAuthority(pki string) (*x509.Certificate, crypto.Signer, error) {
	path := filepath.Join(pki, "ca.crt")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, nil, fmt.Errorf("%s: contains no certificate", path)
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	path = filepath.Join(pki, "ca.key")
	if data, err = os.ReadFile(path); err != nil {
		return nil, nil, err
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("%s: a %T cannot sign", path, parsed)
	}
	return authority, signer, nil
}
