package rehearsal

import (
	"net"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// TestLateClient: a fault that starts a second instance at the end of a run starts nothing: the end of the run would wait for
// that process, which nothing stops. A search hung until it was killed.
func TestLateClient(t *testing.T) {
	p, err := proxy.New(&rest.Config{Host: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{proxy: p, clients: map[string]*client{}}
	listen := func(actor string) *client {
		l, err := p.Listen(actor, &rest.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return &client{run: r, actor: actor, listener: l}
	}
	if first := listen("a"); !r.addClient(first) || r.client("a") != first {
		t.Error("a client of a run is not added")
	}
	r.stopClients()
	late := listen("a+")
	kubeconfig, err := late.listener.Kubeconfig("default")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if r.addClient(late) || r.client("a+") != nil {
		t.Error("a client is added after the end of the run")
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(config.Host, "https://")); err == nil {
		_ = conn.Close()
		t.Error("its listener is open")
	}
}
