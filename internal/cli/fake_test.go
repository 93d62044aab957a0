package cli

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rehearse-k8s/rehearse/cluster"
	clustercmd "github.com/rehearse-k8s/rehearse/internal/cli/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

// fake replaces a cluster where only the life of a process, its files and its signals matter: a TLS socket
// that answers /readyz, with an error while its state directory contains the file "unready". Tests about Kubernetes
// use the real one.
type fake struct {
	name   string
	server *httptest.Server
	done   chan struct{}
	once   sync.Once
	err    error
	stop   func()
}

// startFake does what the environment variable says:
// "ok", "fail: MESSAGE", "usage: MESSAGE", "slow" (until the context ends), "break" (ends by itself), "die", "stuck".
func startFake(ctx context.Context, o cluster.Options) (clustercmd.Running, error) {
	mode, message, _ := strings.Cut(os.Getenv("REHEARSE_TEST_FAKE"), ": ")
	switch mode {
	case "fail":
		return nil, errors.New(message)
	case "usage":
		return nil, &cluster.UsageError{Message: message}
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "die":
		_, _ = os.Stderr.WriteString("panic: all is lost\n")
		os.Exit(3)
	}
	f := newFake(o.Name, o.StateDir)
	switch mode {
	case "break":
		time.AfterFunc(50*time.Millisecond, func() { f.end(errors.New("the disk is gone")) })
	case "stuck":
		f.stop = func() { select {} }
	}
	return f, nil
}

func newFake(name, stateDir string) *fake {
	f := &fake{name: name, done: make(chan struct{})}
	f.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := os.Stat(filepath.Join(stateDir, "unready"))
		switch {
		case r.URL.Path != "/readyz":
			http.NotFound(w, r)
		case err == nil:
			http.Error(w, "[-]etcd failed", http.StatusInternalServerError)
		default:
			_, _ = w.Write([]byte("ok"))
		}
	}))
	return f
}

func (f *fake) end(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.done)
	})
}

func (f *fake) URL() string           { return f.server.URL }
func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) Err() error            { return f.err }

func (f *fake) Stop() {
	if f.stop != nil {
		f.stop()
	}
	f.server.Close()
	f.end(nil)
}

func (f *fake) Kubeconfig() *clientcmdapi.Config {
	name := target.ContextName(f.name)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: f.URL(), CertificateAuthorityData: ca}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "secret"}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return c
}
