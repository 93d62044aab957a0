package stages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/stage"
)

// TestMetrics checks that names and types follow Prometheus' conventions, with and without an engine, and
// checks the counts.
func TestMetrics(t *testing.T) {
	m := NewMetrics()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	check := func() {
		t.Helper()
		problems, err := testutil.GatherAndLint(registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	}
	check()
	if _, err := NewStageEngine(&rest.Config{Host: "http://unreachable.invalid"}, StageOptions{Stages: testSet(t, testStages), Metrics: m}); err != nil {
		t.Fatal(err)
	}
	m.carriedOut("a", time.Second, -time.Second)
	m.renewed(time.Second, nil)
	m.renewed(0, context.DeadlineExceeded)
	m.renewed(0, context.Canceled)
	m.failed(context.Canceled)
	m.failed(fmt.Errorf("the template fails"))
	m.failed(apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("changed")))
	m.failed(&url.Error{Op: "Put", URL: "u", Err: errors.New("refused")})
	check()
	want := `# HELP rehearse_stage_errors_total Stages that could not be carried out and will be tried again, by reason.
# TYPE rehearse_stage_errors_total counter
rehearse_stage_errors_total{reason="Conflict"} 1
rehearse_stage_errors_total{reason="NoAnswer"} 1
rehearse_stage_errors_total{reason="Other"} 1
# HELP rehearse_node_lease_renewals_total Renewals of node leases, by result.
# TYPE rehearse_node_lease_renewals_total counter
rehearse_node_lease_renewals_total{result="Timeout"} 1
rehearse_node_lease_renewals_total{result="success"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "rehearse_stage_errors_total", "rehearse_node_lease_renewals_total"); err != nil {
		t.Error(err)
	}
	var none *Metrics
	none.carriedOut("a", 0, 0)
	none.failed(errors.New("x"))
	none.renewed(0, nil)
	none.attach(nil)
}

func TestWritesAreCountedOnTheWire(t *testing.T) {
	m := NewMetrics()
	code, fail := 200, error(nil)
	wire := m.count(wireFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: http.NoBody}, fail
	}))
	send := func(method, path string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := wire.RoundTrip(r); err == nil {
			_ = answer.Body.Close()
		}
	}
	send("GET", "/api/v1/nodes")
	send("PUT", "/api/v1/nodes/n/status")
	send("PUT", "/prefix/k8s/api/v1/namespaces/a/pods/p/status")
	send("POST", "/api/v1/namespaces/a/events")
	send("PATCH", "/apis/example.com/v1/widgets/w")
	send("DELETE", "/api/v1/namespaces/a")
	send("PUT", "/api/v1/namespaces/a/finalize")
	code = 409
	send("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n")
	fail = context.Canceled
	send("PUT", "/api/v1/nodes/n")
	fail = context.DeadlineExceeded
	send("PUT", "/api/v1/nodes/n")
	want := `# HELP rehearse_stage_writes_total Requests that change something, by verb, resource and result: success, a reason of the API, or NoAnswer.
# TYPE rehearse_stage_writes_total counter
rehearse_stage_writes_total{resource="events",result="success",verb="create"} 1
rehearse_stage_writes_total{resource="leases",result="Conflict",verb="update"} 1
rehearse_stage_writes_total{resource="namespaces",result="success",verb="delete"} 1
rehearse_stage_writes_total{resource="namespaces/finalize",result="success",verb="update"} 1
rehearse_stage_writes_total{resource="nodes",result="NoAnswer",verb="update"} 1
rehearse_stage_writes_total{resource="nodes/status",result="success",verb="update"} 1
rehearse_stage_writes_total{resource="pods/status",result="success",verb="update"} 1
rehearse_stage_writes_total{resource="widgets",result="success",verb="patch"} 1
`
	if err := testutil.CollectAndCompare(m.writes, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

type wireFunc func(*http.Request) (*http.Response, error)

func (f wireFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCountObjects checks that due objects are counted without visiting those that are not due.
func TestCountObjects(t *testing.T) {
	tab := newTable(testSet(t, testStages), 1, func(*corev1.Node) bool { return true })
	begin := time.Unix(1000, 0)
	for i := range 100 {
		tab.due.set(types.UID(fmt.Sprint(i)), begin.Add(time.Duration(i*37%100)*time.Second))
	}
	tab.names[objectKey{kind: stage.KindPod, name: "a"}], tab.names[objectKey{kind: stage.KindNode, name: "a"}] = "1", "2"
	for _, after := range []int{-1, 0, 41, 99} {
		kinds, due, waiting := tab.countObjects(begin.Add(time.Duration(after) * time.Second))
		if due != after+1 || waiting != 100-due || kinds["Pod"] != 1 || kinds["Node"] != 1 {
			t.Errorf("after %d s: %v %d %d", after, kinds, due, waiting)
		}
	}
}
