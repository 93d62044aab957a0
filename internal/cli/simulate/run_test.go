package simulate

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
)

func everything(*http.Request) bool { return true }

// Two shards share the nodes: all become Ready, and each node is written only by its shard.
func TestShardsShareTheNodes(t *testing.T) {
	const nodes = 12
	w := newWorld(t, nodes)
	var shards []*replica
	for i := range 2 {
		shards = append(shards, w.replica(w.admin, func(o *Options) { o.Stage.Shard = stages.Shard{Index: i, Count: 2} }))
	}
	for i, r := range shards {
		if line := r.hears("ready in"); !strings.Contains(line, fmt.Sprintf("shard %d/2", i)) {
			t.Error(line)
		}
	}
	w.awaitReadyNodes(nodes)
	for i := range nodes {
		w.pod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("node-%d", i))
	}
	for i := range nodes {
		w.awaitRunning(fmt.Sprintf("pod-%d", i))
	}
	for i := range nodes {
		owner := 0
		if (stages.Shard{Index: 1, Count: 2}).Owns(fmt.Sprintf("node-%d", i)) {
			owner = 1
		}
		for _, path := range []string{"/nodes/node-%d/status", "/pods/pod-%d/status"} {
			path := fmt.Sprintf(path, i)
			// The API shows a write before its sender receives the answer and records it.
			w.await(fmt.Sprintf("shard %d has written %s", owner, path), func() bool { return len(shards[owner].wire.written(path)) > 0 })
			if len(shards[1-owner].wire.written(path)) != 0 {
				t.Errorf("%s is shard %d's", path, owner)
			}
		}
	}
	for _, r := range shards {
		r.end(nil)
	}
}

// An API server that stops answering and answers again is waited for; each is reported once.
func TestOutage(t *testing.T) {
	w := newWorld(t, 1)
	r := w.replica(w.admin, func(o *Options) { o.Stage.LeaseDuration = time.Second })
	w.awaitReadyNodes(1)
	r.wire.cut(everything)
	r.hears("The API server does not answer: the wire is cut; retrying.")
	w.pod("meanwhile", "node-0")
	r.wire.cut(nil)
	r.hears("The API server answers again, after ")
	w.awaitRunning("meanwhile")
	r.end(nil)
	close(r.said)
	for line := range r.said {
		t.Errorf("it also said: %s", line)
	}
}

// The probes report the state, and the metrics the work done.
func TestProbesAndMetrics(t *testing.T) {
	w := newWorld(t, 2)
	r := w.replica(w.admin, func(o *Options) { o.MetricsAddress = "127.0.0.1:0" })
	line := r.hears("Metrics and probes are on ")
	address := strings.Fields(line)[5]
	r.hears("ready in")
	w.awaitReadyNodes(2)
	w.pod("p", "node-1")
	w.awaitRunning("p")
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok"} {
		if got := get(t, address+path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, want := range []string{
		`rehearse_leader 1`,
		`rehearse_stage_objects{kind="Node"} 2`,
		`rehearse_stage_objects{kind="Pod"} 1`,
		`rehearse_stage_play_duration_seconds_count{stage="node-initialize"} 2`,
		`rehearse_stage_play_duration_seconds_count{stage="pod-ready"} 1`,
		`rehearse_stage_lateness_seconds_count 3`,
		`rehearse_stage_writes_total{resource="nodes/status",result="success",verb="update"} 2`,
		`rehearse_stage_writes_total{resource="pods/status",result="success",verb="update"} 1`,
		`rehearse_stage_queue{state="due"} 0`,
		`rehearse_node_leases 2`,
		`rehearse_node_lease_renewals_total{result="success"} `,
	} {
		// Work is counted a moment after its effect is visible.
		w.await(want, func() bool { return strings.Contains(get(t, address+"/metrics"), "\n"+want) })
	}
	r.end(nil)
	if _, err := http.Get(address + "/healthz"); err == nil {
		t.Error("the server is still there")
	}
}

func TestMetricsAddressThatIsTaken(t *testing.T) {
	w := newWorld(t, 0)
	first := w.replica(w.admin, func(o *Options) { o.MetricsAddress = "127.0.0.1:0" })
	address := strings.TrimPrefix(strings.Fields(first.hears("Metrics"))[5], "http://")
	second := w.replica(w.admin, func(o *Options) { o.MetricsAddress = address })
	err := <-second.done
	second.done <- nil
	if err == nil || !strings.Contains(err.Error(), "--metrics-address "+address) {
		t.Errorf("%v", err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
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
