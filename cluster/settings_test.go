package cluster_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	extender "k8s.io/kube-scheduler/extender/v1"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// write writes a file of the test, and returns its name.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  resources: [{group: "", resources: [configmaps]}]
- level: None
`
	schedulerConfig = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
extenders:
- urlPrefix: %s
  filterVerb: filter
`
)

// rejectNode0 is an extender of the scheduler that rejects the node node-0.
func rejectNode0(t *testing.T, asked *atomic.Int32) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extender.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil || r.URL.Path != "/filter" {
			t.Errorf("the extender was asked %s: %v", r.URL, err)
			return
		}
		asked.Add(1)
		answer := extender.ExtenderFilterResult{Nodes: &corev1.NodeList{}, FailedNodes: extender.FailedNodesMap{"node-0": "rejected"}}
		for _, n := range args.Nodes.Items {
			if n.Name != "node-0" {
				answer.Nodes.Items = append(answer.Nodes.Items, n)
			}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestSettings starts a cluster with settings of its components, and checks that each takes effect.
func TestSettings(t *testing.T) {
	auditLog := filepath.Join(t.TempDir(), "audit.log")
	var asked atomic.Int32
	schedulerFile := write(t, "scheduler.yaml", fmt.Sprintf(schedulerConfig, rejectNode0(t, &asked).URL))
	c := startCluster(t, cluster.Options{
		Nodes: 2, Controllers: []string{"stage", "scheduler"}, RuntimeConfig: []string{"autoscaling/v1=false"}, AdmissionPlugins: []string{"AlwaysPullImages", "-ServiceAccount"},
		ServiceCIDR: "10.77.0.0/16", AuditPolicyFile: write(t, "policy.yaml", auditPolicy), AuditLogFile: auditLog,
		SchedulerConfigFile: schedulerFile, NodeLeaseDuration: 20 * time.Second,
	})
	k, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := k.Discovery().ServerResourcesForGroupVersion("autoscaling/v1"); err == nil {
		t.Error("runtime config: autoscaling/v1 is served")
	}
	svc, err := k.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	if err != nil || !strings.HasPrefix(svc.Spec.ClusterIP, "10.77.") {
		t.Errorf("service CIDR: %v, %v", svc.Spec.ClusterIP, err)
	}
	// Without the plugin ServiceAccount, the pod needs no service account; AlwaysPullImages changes its policy.
	pod, err := k.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{
		SchedulerName: "packing", Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Containers: []corev1.Container{{Name: "main", Image: "web:1", ImagePullPolicy: corev1.PullNever}},
	}}, metav1.CreateOptions{})
	if err != nil || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
		t.Fatalf("admission plugins: %v", err)
	}
	await(t, "the scheduler's second profile binds the pod to the node that the extender does not reject", func() error {
		p, err := k.CoreV1().Pods("default").Get(ctx, "a", metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			err = fmt.Errorf("not bound: %+v", p.Status.Conditions)
		}
		if err == nil && (p.Spec.NodeName != "node-1" || asked.Load() == 0) {
			t.Fatalf("bound to %s, the extender was asked %d times", p.Spec.NodeName, asked.Load())
		}
		return err
	})
	await(t, "the node's lease has the duration", func() error {
		l, err := k.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "node-0", metav1.GetOptions{})
		if err == nil && *l.Spec.LeaseDurationSeconds != 20 {
			err = fmt.Errorf("%d seconds", *l.Spec.LeaseDurationSeconds)
		}
		return err
	})
	if _, err := k.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "audited"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the audit log has the create", func() error { return audited(auditLog, "create", "configmaps", "audited") })
	if err := audited(auditLog, "create", "pods", "a"); err == nil {
		t.Error("audit policy: a pod was audited")
	}
}

// audited returns an error unless the log has an event.
func audited(file, verb, resource, name string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e struct {
			Verb      string
			ObjectRef struct{ Resource, Name string }
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Verb == verb && e.ObjectRef.Resource == resource && e.ObjectRef.Name == name {
			return nil
		}
	}
	return fmt.Errorf("no event %s %s %s", verb, resource, name)
}
