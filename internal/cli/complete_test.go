package cli_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestCompleteSendsNoRequest: without a cluster, kubectl's commands are completed, and no request is sent to kubectl's default
// server.
func TestCompleteSendsNoRequest(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 16)
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				close(asked)
				return
			}
			asked <- struct{}{}
			_ = c.Close()
		}
	}()
	home := t.TempDir()
	for _, args := range [][]string{{"get", "no"}, {"get", "nodes", ""}, {"descr"}} {
		c := exec.Command("rehearse", append([]string{"__complete", "kubectl"}, args...)...)
		c.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "KUBECONFIG=", "REHEARSE_NAME=", "KUBERNETES_MASTER=http://"+server.Addr().String())
		out, err := c.Output()
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if args[0] == "descr" && !strings.HasPrefix(string(out), "describe") {
			t.Errorf("%s: %q", args, out)
		}
	}
	_ = server.Close()
	if _, yes := <-asked; yes {
		t.Error("a request was sent")
	}
}
