package stage

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"text/template"
	"time"

	netutils "k8s.io/utils/net"
)

// certificate is what templates read: {{ $ca.Cert }} and {{ $ca.Key }}.
type certificate struct{ Cert, Key string }

// certificateFunctions are sprig's gen… functions, with a drawn key and serial
// number, valid from the moment of the decision.
func (s *session) certificateFunctions() template.FuncMap {
	ca := func(name string, days int, key crypto.Signer) (certificate, error) {
		t := s.certificateTemplate(name, days)
		t.KeyUsage |= x509.KeyUsageCertSign
		t.IsCA = true
		return issue(t, t, key, key)
	}
	self := func(name string, ips, names []any, days int, key crypto.Signer) (certificate, error) {
		t, err := s.servingTemplate(name, ips, names, days)
		if err != nil {
			return certificate{}, err
		}
		return issue(t, t, key, key)
	}
	signed := func(name string, ips, names []any, days int, by any, key crypto.Signer) (certificate, error) {
		t, err := s.servingTemplate(name, ips, names, days)
		if err != nil {
			return certificate{}, err
		}
		parent, parentKey, err := readCA(by)
		if err != nil {
			return certificate{}, err
		}
		return issue(t, parent, key, parentKey)
	}
	return template.FuncMap{
		"genCA": func(name string, days int) (certificate, error) {
			key, err := s.privateKey("rsa")
			if err != nil {
				return certificate{}, err
			}
			return ca(name, days, key)
		},
		"genCAWithKey": func(name string, days int, text string) (certificate, error) {
			key, err := parseKey(text)
			if err != nil {
				return certificate{}, err
			}
			return ca(name, days, key)
		},
		"genSelfSignedCert": func(name string, ips, names []any, days int) (certificate, error) {
			key, err := s.privateKey("rsa")
			if err != nil {
				return certificate{}, err
			}
			return self(name, ips, names, days, key)
		},
		"genSelfSignedCertWithKey": func(name string, ips, names []any, days int, text string) (certificate, error) {
			key, err := parseKey(text)
			if err != nil {
				return certificate{}, err
			}
			return self(name, ips, names, days, key)
		},
		"genSignedCert": func(name string, ips, names []any, days int, by any) (certificate, error) {
			key, err := s.privateKey("rsa")
			if err != nil {
				return certificate{}, err
			}
			return signed(name, ips, names, days, by, key)
		},
		"genSignedCertWithKey": func(name string, ips, names []any, days int, by any, text string) (certificate, error) {
			key, err := parseKey(text)
			if err != nil {
				return certificate{}, err
			}
			return signed(name, ips, names, days, by, key)
		},
	}
}

func (s *session) certificateTemplate(name string, days int) *x509.Certificate {
	serial := make([]byte, 16)
	_, _ = s.stream().Read(serial)
	serial[0] &= 0x7f
	begin := s.now.UTC().Truncate(time.Second)
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    begin, NotAfter: begin.AddDate(0, 0, days),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
}

func (s *session) servingTemplate(name string, ips, names []any, days int) (*x509.Certificate, error) {
	t := s.certificateTemplate(name, days)
	for _, item := range ips {
		text, _ := item.(string)
		ip := netutils.ParseIPSloppy(text)
		if ip == nil {
			return nil, fmt.Errorf("%v is no IP address", item)
		}
		t.IPAddresses = append(t.IPAddresses, ip)
	}
	for _, item := range names {
		text, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("%v is no name", item)
		}
		t.DNSNames = append(t.DNSNames, text)
	}
	return t, nil
}

// sameSigner signs the same text the same way: without randomness.
type sameSigner struct{ crypto.Signer }

func (s sameSigner) Sign(_ io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	return s.Signer.Sign(nil, digest, options)
}

func issue(t, parent *x509.Certificate, key, by crypto.Signer) (certificate, error) {
	der, err := x509.CreateCertificate(nil, t, parent, key.Public(), sameSigner{by})
	if err != nil {
		return certificate{}, err
	}
	text, err := keyPEM(key)
	return certificate{Cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), Key: text}, err
}

// readCA reads what genCA or sprig's buildCustomCert gave.
func readCA(by any) (*x509.Certificate, crypto.Signer, error) {
	v := reflect.ValueOf(by)
	if v.Kind() != reflect.Struct || !v.FieldByName("Cert").IsValid() || !v.FieldByName("Key").IsValid() {
		return nil, nil, errors.New("the authority is no certificate with a key; make one with genCA")
	}
	block, _ := pem.Decode([]byte(v.FieldByName("Cert").String()))
	if block == nil {
		return nil, nil, errors.New("the authority's certificate is no PEM")
	}
	parent, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := parseKey(v.FieldByName("Key").String())
	return parent, key, err
}

func parseKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the key is no PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the key is none that is known here: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	return signer, nil
}
