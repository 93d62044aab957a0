package proxy_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

var (
	admin  *rest.Config // at the server's socket
	direct kubernetes.Interface
	server *apiserver.Server
)

func TestMain(m *testing.M) {
	flag.Parse()
	apiserver.Quiet()
	code := 1
	if err := run(m, &code); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func run(m *testing.M, code *int) error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "proxy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	server, err = apiserver.Start(ctx, apiserver.Options{
		Dir: filepath.Join(dir, "pki"), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, WatchCache: true,
	})
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := server.Ready(ctx); err != nil {
		return err
	}
	if admin, err = user("root", "system:masters"); err != nil {
		return err
	}
	if direct, err = kubernetes.NewForConfig(admin); err != nil {
		return err
	}
	*code = m.Run()
	return nil
}

// user returns the configuration of a client with its own certificate.
func user(name string, groups ...string) (*rest.Config, error) {
	cert, key, err := server.ClientCertificate(name, groups...)
	return &rest.Config{
		Host: server.URL(), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: server.CA(), CertData: cert, KeyData: key},
	}, err
}

// through returns a client with its own listener.
func through(t *testing.T, p *proxy.Proxy, name string, as *rest.Config) kubernetes.Interface {
	t.Helper()
	d, err := p.Listen(name, as)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	client, err := kubernetes.NewForConfig(d.Config())
	must(t, err)
	return client
}

func newProxy(t *testing.T) *proxy.Proxy {
	t.Helper()
	p, err := proxy.New(admin)
	must(t, err)
	return p
}

// begin begins a run with faults in text form.
func begin(t *testing.T, p *proxy.Proxy, hooks proxy.Hooks, texts ...string) *proxy.Run {
	t.Helper()
	var faults []fault.Fault
	for _, text := range texts {
		f, err := fault.Parse(text)
		must(t, err)
		faults = append(faults, f)
	}
	r, err := p.Begin(history.Header{Seed: 1}, faults, hooks)
	must(t, err)
	t.Cleanup(func() { r.End() })
	return r
}

// acted waits until every fault of a run has acted.
func acted(t *testing.T, r *proxy.Run) {
	t.Helper()
	late := time.Now().Add(10 * time.Second)
	for len(r.Unmet()) > 0 {
		if time.Now().After(late) {
			t.Fatalf("faults that have not acted: %v", r.Unmet())
		}
		time.Sleep(time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// namespace creates a namespace for the test.
func namespace(t *testing.T) string {
	t.Helper()
	ns, err := direct.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "proxy-"}}, metav1.CreateOptions{})
	must(t, err)
	return ns.Name
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// events returns n events of a watch, as "ADDED name", or those until its end.
func events(t *testing.T, w watch.Interface, n int) (seen []string) {
	t.Helper()
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	for len(seen) < n {
		select {
		case <-late.C:
			t.Fatalf("observed so far: %q", seen)
		case e, ok := <-w.ResultChan():
			if !ok {
				return append(seen, "end")
			}
			o, ok := e.Object.(metav1.Object)
			if !ok {
				t.Fatalf("%s of %T", e.Type, e.Object)
			}
			seen = append(seen, string(e.Type)+" "+o.GetName())
		}
	}
	return seen
}
