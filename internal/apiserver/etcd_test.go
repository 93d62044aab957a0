package apiserver_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// TestExternalEtcd runs over an external etcd with TLS and client certificates.
func TestExternalEtcd(t *testing.T) {
	files := t.TempDir()
	cert, key, _ := servingCertificate(t, "localhost")
	for name, data := range map[string][]byte{"crt": cert, "key": key} {
		if err := os.WriteFile(filepath.Join(files, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	crt, keyFile := filepath.Join(files, "crt"), filepath.Join(files, "key")
	endpoint := startTLSEtcd(t, crt, keyFile)
	etcd := apiserver.Etcd{Servers: []string{endpoint}, CAFile: crt, CertFile: crt, KeyFile: keyFile, Prefix: "/mine"}
	if err := etcd.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := start(t.Context(), t.TempDir(), etcd)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if _, err := client(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "there"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func startTLSEtcd(t *testing.T, crt, key string) (endpoint string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = free.Close()
	c := embed.NewConfig()
	c.Dir, c.Logger, c.LogLevel = t.TempDir(), "zap", "fatal"
	endpoint = "https://localhost:" + port
	listen, _ := url.Parse("https://" + address)
	advertise, _ := url.Parse(endpoint)
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*listen}, []url.URL{*advertise}
	c.ListenPeerUrls = nil
	c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = crt, key
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	return endpoint
}

// TestEtcdThatDoesNotAnswer: the error is one line with the address and the flags.
func TestEtcdThatDoesNotAnswer(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + free.Addr().String()
	_ = free.Close()
	err = apiserver.Etcd{Servers: []string{address}}.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "--etcd-servers") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	err = apiserver.Etcd{Servers: []string{address}, CAFile: "no-such-file"}.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no-such-file") {
		t.Errorf("error %v", err)
	}
}
