package cli_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestCompleteAsksNobody: without a cluster that is meant, kubectl's commands are completed, and whoever
// listens where kubectl would ask by default is asked nothing.
func TestCompleteAsksNobody(t *testing.T) {
	somebody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 16)
	go func() {
		for {
			c, err := somebody.Accept()
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
		c.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "KUBECONFIG=", "REHEARSE_NAME=", "KUBERNETES_MASTER=http://"+somebody.Addr().String())
		out, err := c.Output()
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if args[0] == "descr" && !strings.HasPrefix(string(out), "describe") {
			t.Errorf("%s: %q", args, out)
		}
	}
	_ = somebody.Close()
	if _, yes := <-asked; yes {
		t.Error("somebody was asked")
	}
}
