package cluster_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

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
`
)

// TestSettings starts a cluster with settings of its components, and checks that each takes effect.
func TestSettings(t *testing.T) {
	auditLog := filepath.Join(t.TempDir(), "audit.log")
	c := startCluster(t, cluster.Options{
		Nodes: 1, Controllers: []string{"stage", "scheduler"}, RuntimeConfig: []string{"autoscaling/v1=false"}, AdmissionPlugins: []string{"AlwaysPullImages", "-ServiceAccount"},
		ServiceCIDR: "10.77.0.0/16", AuditPolicyFile: write(t, "policy.yaml", auditPolicy), AuditLogFile: auditLog,
		SchedulerConfigFile: write(t, "scheduler.yaml", schedulerConfig), NodeLeaseDuration: 20 * time.Second,
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
	await(t, "the scheduler's second profile binds the pod", func() error {
		p, err := k.CoreV1().Pods("default").Get(ctx, "a", metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			err = fmt.Errorf("not bound: %+v", p.Status.Conditions)
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
