package apiserver_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// shared is one server on the memory store for the tests that can share it; a server takes half a second to
// build.
var shared *apiserver.Server

// serveDataDir is the environment variable that lets this test binary serve a data
// directory until it is killed.
const serveDataDir = "APISERVER_TEST_SERVE_DATA_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveDataDir); dir != "" {
		if _, err := apiserver.StartEmbeddedEtcd(context.Background(), dir); err != nil {
			panic(err)
		}
		fmt.Println("serving")
		select {}
	}
	if os.Getenv(endFatally) != "" {
		fatalMain()
	}
	flag.Parse()
	apiserver.Quiet()
	dir, err := os.MkdirTemp("", "apiserver-test-")
	worlds := store.New(store.Options{ShareParts: true}) // as in a cluster
	if err == nil {
		shared, err = start(context.Background(), dir, apiserver.Memory{Worlds: worlds})
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	shared.Stop()
	if compared, modified := worlds.Modified(); compared == 0 || len(modified) > 0 {
		fmt.Println("FAIL: objects that a reader has modified although all readers share them:", modified, "of", compared)
		code = 1
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// start runs a server and waits until it is ready.
func start(ctx context.Context, dir string, b apiserver.Backend) (*apiserver.Server, error) {
	s, err := apiserver.Start(ctx, apiserver.Options{Dir: filepath.Join(dir, "pki"), Backend: b, WatchCache: true, Version: "v0.1.0"})
	if err != nil {
		return nil, err
	}
	return s, s.Ready(ctx)
}

// client uses the in-process transport.
func client(t *testing.T, s *apiserver.Server) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.RESTConfig("test"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testLogger(t *testing.T) klog.Logger { return klog.FromContext(t.Context()) }

// await repeats f until it returns nil: for states of the server that are visible only in its answers.
func await(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// servingCertificate creates a certificate for one DNS name, and its authority.
func servingCertificate(t *testing.T, name string) (cert, key, ca []byte) {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, cert
}

// serveAs serves on this machine, with TLS for this name.
func serveAs(t *testing.T, name string, handler http.HandlerFunc) (port string, caBundle []byte) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	cert, key, ca := servingCertificate(t, name)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	u, _ := url.Parse(s.URL)
	return u.Port(), ca
}
