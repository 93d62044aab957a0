package cluster_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestMetricsAddress: the metrics of the stage engine can be read, and an address in use is reported before
// anything is started.
func TestMetricsAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	_, err = cluster.Start(t.Context(), cluster.Options{StateDir: t.TempDir(), MetricsAddress: address})
	if err == nil || !strings.Contains(err.Error(), "--metrics-address "+address) {
		t.Errorf("taken: %v", err)
	}
	taken.Close()
	startCluster(t, cluster.Options{Nodes: 1, MetricsAddress: address, Controllers: []string{"stage"}})
	ask := func(path string) string {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	await(t, "the node's stage is counted", func() error {
		const want = `rehearse_stage_writes_total{resource="nodes/status",result="success",verb="update"} 1`
		if got := ask("/metrics"); !strings.Contains(got, want) {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	if got := ask("/readyz"); got != "ok" {
		t.Errorf("/readyz: %s", got)
	}
}
