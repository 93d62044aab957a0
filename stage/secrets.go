package stage

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	//lint:ignore SA1019 a bcrypt hash is made of it, and of nothing else
	"golang.org/x/crypto/blowfish"
)

// Keys and hashes of simulated objects. They look as real ones do and can be
// replayed, which is why they protect nothing.

// rsaBits is the size of RSA keys. sprig makes some of 4096; primes of that size
// take seconds.
const rsaBits = 2048

func (s *session) secretFunctions() template.FuncMap {
	f := template.FuncMap{
		"bcrypt": func(password string) (string, error) { return s.bcrypt(password) },
		"htpasswd": func(user, password string) (string, error) {
			if strings.Contains(user, ":") {
				return "", fmt.Errorf("htpasswd: user name %s has a colon", short(user))
			}
			hash, err := s.bcrypt(password)
			return user + ":" + hash, err
		},
		"encryptAES":    s.encryptAES,
		"genPrivateKey": s.privateKeyPEM,
		"derivePassword": func(counter uint32, kind, password, user, site string) (string, error) {
			derive := sprig.TxtFuncMap()["derivePassword"].(func(uint32, string, string, string, string) string)
			return derive(counter, kind, password, user, site), s.spend(costly)
		},
	}
	for name, function := range s.certificateFunctions() {
		f[name] = function
	}
	return f
}

// bcryptAlphabet is the base 64 of bcrypt hashes.
var bcryptAlphabet = base64.NewEncoding("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").WithPadding(base64.NoPadding)

// bcrypt hashes with a drawn salt at the usual cost of 10.
func (s *session) bcrypt(password string) (string, error) {
	if err := s.spend(costly); err != nil {
		return "", err
	}
	if len(password) > 72 {
		return "", fmt.Errorf("bcrypt: a password of %d bytes; at most 72 count", len(password))
	}
	const cost = 10
	salt := make([]byte, 16)
	_, _ = s.stream().Read(salt)
	key := append([]byte(password), 0)
	c, err := blowfish.NewSaltedCipher(key, salt)
	if err != nil {
		return "", err
	}
	for range 1 << cost {
		blowfish.ExpandKey(key, c)
		blowfish.ExpandKey(salt, c)
	}
	text := []byte("OrpheanBeholderScryDoubt")
	for at := 0; at < len(text); at += blowfish.BlockSize {
		for range 64 {
			c.Encrypt(text[at:], text[at:])
		}
	}
	// The last byte has never been part of the hash.
	return fmt.Sprintf("$2a$%02d$%s%s", cost, bcryptAlphabet.EncodeToString(salt), bcryptAlphabet.EncodeToString(text[:len(text)-1])), nil
}

// encryptAES is what sprig's decryptAES reads: CBC with the vector in front.
func (s *session) encryptAES(password, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	key := make([]byte, 32)
	copy(key, password)
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	pad := aes.BlockSize - len(text)%aes.BlockSize
	data := append([]byte(text), []byte(strings.Repeat(string(rune(pad)), pad))...)
	out := make([]byte, aes.BlockSize+len(data))
	_, _ = s.stream().Read(out[:aes.BlockSize])
	cipher.NewCBCEncrypter(block, out[:aes.BlockSize]).CryptBlocks(out[aes.BlockSize:], data)
	return base64.StdEncoding.EncodeToString(out), nil
}

func (s *session) privateKeyPEM(kind string) (string, error) {
	key, err := s.privateKey(kind)
	if err != nil {
		return "", err
	}
	return keyPEM(key)
}

func (s *session) privateKey(kind string) (crypto.Signer, error) {
	if err := s.spend(costly); err != nil {
		return nil, err
	}
	from := s.stream()
	switch kind {
	case "", "rsa":
		return drawRSA(from)
	case "ecdsa":
		curve := elliptic.P256()
		scalar := make([]byte, 32)
		for {
			_, _ = from.Read(scalar)
			if key, err := ecdsa.ParseRawPrivateKey(curve, scalar); err == nil {
				return key, nil
			}
		}
	case "ed25519":
		seed := make([]byte, ed25519.SeedSize)
		_, _ = from.Read(seed)
		return ed25519.NewKeyFromSeed(seed), nil
	}
	return nil, fmt.Errorf("genPrivateKey: %s is not one of rsa, ecdsa, ed25519", short(kind))
}

// drawRSA makes a key from drawn primes: Go's own generator takes no randomness
// from outside.
func drawRSA(from io.Reader) (*rsa.PrivateKey, error) {
	e := big.NewInt(65537)
	prime := func() *big.Int {
		one, b := big.NewInt(1), make([]byte, rsaBits/16)
		for {
			_, _ = from.Read(b)
			b[0] |= 0xc0
			b[len(b)-1] |= 1
			p := new(big.Int).SetBytes(b)
			rest := new(big.Int).Sub(p, one)
			if p.ProbablyPrime(20) && new(big.Int).GCD(nil, nil, e, rest).Cmp(one) == 0 {
				return p
			}
		}
	}
	p, q := prime(), prime()
	one := big.NewInt(1)
	totient := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	key := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: int(e.Int64())},
		D:         new(big.Int).ModInverse(e, totient),
		Primes:    []*big.Int{p, q},
	}
	key.Precompute()
	return key, key.Validate()
}

func keyPEM(key crypto.Signer) (string, error) {
	block := &pem.Block{}
	var err error
	switch key := key.(type) {
	case *rsa.PrivateKey:
		block.Type, block.Bytes = "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)
	case *ecdsa.PrivateKey:
		block.Type = "EC PRIVATE KEY"
		block.Bytes, err = x509.MarshalECPrivateKey(key)
	default:
		block.Type = "PRIVATE KEY"
		block.Bytes, err = x509.MarshalPKCS8PrivateKey(key)
	}
	return string(pem.EncodeToMemory(block)), err
}
